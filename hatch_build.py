"""Compile the hot modules with mypyc into the wheel, if DITTOFS_COMPILE=1 asks for it.

Without the variable the wheel is pure Python, needs no compiler, and passes the same tests.  Which modules are worth it
is said in pyproject.toml; all of them run unchanged either way.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "DITTOFS_COMPILE"
GROUP = "dittofs_native"

COMPILE = f"""
import sys
from mypyc.build import mypycify
from setuptools import setup
modules = sys.argv[1:]
sys.argv[1:] = ["build_ext", "--inplace", "-j2"]
extensions = mypycify(
    ["--strict", "--ignore-missing-imports", *modules],
    opt_level="3", debug_level="0", multi_file=True, group_name="{GROUP}",
)
setup(name="dittofs", ext_modules=extensions)
"""


class CompileHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Adds extension modules beside the sources."""

    def dependencies(self) -> list[str]:
        return ["mypy>=2,<3", "setuptools>=75"] if self._is_wanted("standard") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not self._is_wanted(version):
            return
        self._work = tempfile.TemporaryDirectory(prefix="dittofs-compile-")
        place = Path(self._work.name)
        source = Path(self.root, "src")
        shutil.copytree(source / "dittofs", place / "dittofs", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        modules = [f"{name.replace('.', '/')}.py" for name in self.config["modules"]]
        missing = [name for name in modules if not (place / name).exists()]
        if missing:
            raise SystemExit(f"pyproject.toml names modules to compile that are not there: {', '.join(missing)}")
        subprocess.run([sys.executable, "-c", COMPILE, *modules], cwd=place, check=True, stdout=sys.stderr)
        for path in place.glob("**/*.so"):
            relative = path.relative_to(place)
            if relative.parts[0] != "build":
                build_data["force_include"][str(path)] = str(relative)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._is_wanted(version):
            self._work.cleanup()

    @staticmethod
    def _is_wanted(version: str) -> bool:
        return version != "editable" and os.environ.get(VARIABLE) == "1"
