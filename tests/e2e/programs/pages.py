"""Prints what the agent of this container serves, page after page."""

import urllib.error
import urllib.request

_PAGES = ("readyz", "healthz", "status", "metrics")


def main() -> None:
    """Ask for each page as anybody may."""
    for page in _PAGES:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:9390/{page}", timeout=5) as answer:
                print(answer.read().decode())
        except urllib.error.HTTPError as error:
            print(error.read().decode())


if __name__ == "__main__":
    main()
