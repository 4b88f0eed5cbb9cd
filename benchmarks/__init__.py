"""Figures as ratios against something else measured in the same run; see README.md."""
