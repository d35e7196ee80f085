"""python -m website build/site"""

import sys
from pathlib import Path

from website.build import build

build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site"))
