"""Builds the documentation of this version beside that of the versions that are there already.

    python docs/versions.py           build docs/_build/html/VERSION

The folder that a site is published from keeps a folder of each version. ``versions.js`` in it names
them all, newest first, and each page has a list of them (``_templates/versions.html``): so the
pages of an old version lead to a new one without being built again. ``index.html`` leads to the newest
release, or to the newest version if none is released.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

from muster import __version__

DOCS = Path(__file__).resolve().parent
SITE = DOCS / "_build" / "html"

START = """<!DOCTYPE html>
<meta charset="utf-8">
<title>Muster</title>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">Muster {0}</a>
"""


def versions_in(site: Path) -> list[Version]:
    """Return the versions whose pages are in a folder, newest first."""
    found: list[Version] = []
    for page in site.glob("*/index.html"):
        try:
            found.append(Version(page.parent.name))
        except InvalidVersion:
            continue
    return sorted(found, reverse=True)


def list_versions(site: Path) -> None:
    """Write which versions there are, and where the site begins."""
    versions = versions_in(site)
    names = json.dumps([str(one) for one in versions])
    (site / "versions.js").write_text(f"const VERSIONS = {names};\n", encoding="utf-8")
    newest = next((one for one in versions if not one.is_prerelease), versions[0])
    (site / "index.html").write_text(START.format(newest), encoding="utf-8")


def main() -> int:
    """Build the pages of this version, and list all versions."""
    pages = SITE / str(Version(__version__))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-d", str(DOCS / "_build" / "doctrees"), str(DOCS), str(pages)]
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        list_versions(SITE)
        print(f"Built {pages / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
