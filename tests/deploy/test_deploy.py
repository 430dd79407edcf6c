"""What is shipped beside the code is true: configurations load, dashboard and alerts name metrics that exist."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dittofs.cli.reference import reference
from dittofs.loading import load

TOP = Path(__file__).parents[2]
DEPLOY = TOP / "deploy"
NAME = re.compile(r"\b((?:dittofs|nfs|nlm|mount|nsm|process)_[a-z_]+?)(?:_bucket|_sum|_count)?\b(?=[{\[) ,]|$)")


def declared() -> set[str]:
    """Every metric that the source declares."""
    source = "".join(path.read_text() for path in (TOP / "src" / "dittofs").rglob("*.py"))
    found = set(re.findall(r'"((?:dittofs|nlm)_[a-z_]+)"', source))
    for store in re.findall(r'counter\(\s*"([a-z_]+)"', source):
        found.add(f"dittofs_store_{store}_total")
    for prefix in ("nfs", "mount", "nlm", "nsm"):
        found |= {f"{prefix}_requests_total", f"{prefix}_request_duration_seconds"}
    return found | {"process_resident_memory_bytes", "process_cpu_seconds_total"}


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("*.toml")), ids=lambda path: path.name)
def test_example_configurations_can_be_used(file: Path) -> None:
    assert load(file, environment={}).shares
    assert tomllib.loads(file.read_text())


def test_the_dashboard_names_metrics_that_exist() -> None:
    panels = json.loads((DEPLOY / "grafana" / "dittofs.json").read_text())["panels"]
    asked = {name for panel in panels for target in panel["targets"] for name in NAME.findall(target["expr"])}
    assert len(asked) > 15
    assert asked <= declared(), sorted(asked - declared())


def test_the_alerts_name_metrics_that_exist() -> None:
    lines = re.findall(r"expr: (.+)", (DEPLOY / "prometheus" / "alerts.yml").read_text())
    asked = {name for line in lines for name in NAME.findall(line)}
    assert len(asked) > 4
    assert asked <= declared(), sorted(asked - declared())


def test_the_reference_of_the_commands_is_up_to_date() -> None:
    """`python -m dittofs.cli.reference > docs/commands.md` makes it so."""
    assert (TOP / "docs" / "commands.md").read_text() == reference()


def test_links_between_documents_lead_somewhere() -> None:
    for document in [TOP / "README.md", *(TOP / "docs").glob("*.md"), *DEPLOY.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


@pytest.mark.slow
def test_what_the_image_copies_is_enough_to_build_it(tmp_path: Path) -> None:
    """There is no container engine where the tests run: so the build step of the image, in a directory."""
    build = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1]
    for sources, target in re.findall(r"^COPY (.+) (/src\S*)$", build, re.MULTILINE):
        for source in sources.split():
            origin, place = TOP / source, tmp_path / target.lstrip("/")
            if origin.is_dir():
                shutil.copytree(origin, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, place)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, tmp_path / "wheel", tmp_path / "src"], check=True)
    assert [path.name for path in (tmp_path / "wheel").glob("dittofs-*-none-any.whl")]
