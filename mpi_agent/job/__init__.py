"""The shared vocabulary: values that cross chapters."""
