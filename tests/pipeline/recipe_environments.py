"""Environments of dbt and Airflow, which see the libraries of this one behind their own, kept below `build/`.

python -m tests.pipeline.recipe_environments build/recipes
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGES = {
    # later ones of dbt fetch a part of theirs from elsewhere while they are installed
    "dbt": ["dbt-core>=1.8,<1.10", "dbt-spark>=1.8,<1.10"],
    "airflow": ["apache-airflow>=2.9,<4"],
}


def make(folder: Path) -> None:
    """Make what is not there yet."""
    import quire

    here = sysconfig.get_path("purelib")
    for name, packages in PACKAGES.items():
        place = folder / name
        if (place / "made").exists():
            continue
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        subprocess.run([str(place / "bin" / "pip"), "install", "-q", *packages], check=True)
        [libraries] = place.glob("lib/python3*/site-packages")
        (libraries / "zz-quire.pth").write_text(f"{here}\n{Path(quire.__file__).parents[1]}\n", "utf-8")
        (place / "made").touch()


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
