#!/usr/bin/env python3
"""Makes the wheel zeitset-server, which contains the module. Needs Python's standard library and objdump (binutils):

    scripts/wheel.py MODULE NOTICES FOLDER      prints the path of the wheel

The wheel is for the platform of this machine, and for the C library that the module needs. File times are
SOURCE_DATE_EPOCH, by default 1980.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

root = Path(__file__).resolve().parent.parent
module, notices, folder = map(Path, sys.argv[1:])
version = re.search(r'^version = "(.*)"', (root / "Cargo.toml").read_text(), re.M).group(1)
symbols = subprocess.run(["objdump", "-T", module], check=True, capture_output=True, text=True).stdout
needed = sorted({tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", symbols)})
if platform.system() != "Linux" or not needed:
    sys.exit("wheel: the module is for no Linux with glibc, the only system that the wheel is made for")
tag = f"py3-none-manylinux_{needed[-1][0]}_{needed[-1][1]}_{platform.machine()}"

files: dict[str, bytes] = {}
source = root / "packaging/wheel"
for path in sorted((source / "zeitset_server").iterdir()):
    if path.is_file():
        files[f"zeitset_server/{path.name}"] = path.read_bytes()
files["zeitset_server/zeitset.so"] = module.read_bytes()
info = f"zeitset_server-{version}.dist-info"
files[f"{info}/licenses/LICENSE"] = (root / "LICENSE").read_bytes()
files[f"{info}/licenses/third-party.txt"] = notices.read_bytes()
files[f"{info}/METADATA"] = f"""Metadata-Version: 2.4
Name: zeitset-server
Version: {version}
Summary: The Zeitset module for Redis and Valkey, for tests and development
License-Expression: MIT
License-File: LICENSE
License-File: third-party.txt
Requires-Python: >=3.10
Classifier: Framework :: Pytest
Description-Content-Type: text/markdown

{(source / "README.md").read_text()}""".encode()
files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: zeitset\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()

record = f"{info}/RECORD"
sums = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for name, data in files.items()}
lines = [f"{name},sha256={sums[name]},{len(data)}" for name, data in files.items()]
files[record] = "\n".join([*lines, f"{record},,", ""]).encode()

epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
moment = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
folder.mkdir(parents=True, exist_ok=True)
wheel = folder / f"zeitset_server-{version}-{tag}.whl"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, data in files.items():
        entry = zipfile.ZipInfo(name, moment)
        # A server refuses modules that are not executable.
        entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
        archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
print(wheel)
