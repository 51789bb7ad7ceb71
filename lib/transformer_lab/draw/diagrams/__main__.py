"""Redraw the still diagrams: `python -m transformer_lab.draw.diagrams figures/`."""

import sys
from pathlib import Path

from transformer_lab.draw.diagrams import available_lessons, write_all

if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
    sys.exit("Usage: python -m transformer_lab.draw.diagrams FOLDER (an existing folder, such as figures/)")
target = Path(sys.argv[1]).resolve()
for written in write_all(target, available_lessons(target.parent / "notebooks")):
    print(written.name)
