"""`make fuzz`: feed the targets with coverage-guided rubbish until the time is over or something breaks.

Each target runs in a process of its own for an equal part of the time.  What broke it is kept in tests/fuzz/crashes,
and is fed again with `--again FILE`.  Exit status 0: nothing broke; 1: something did; 2: the fuzzer cannot run here.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CRASHES = HERE / "crashes"
TARGETS = ("decoding", "reassembling", "dispatching")
SECONDS_FOR_ONE_INPUT = 25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="in all (default: %(default)s)")
    parser.add_argument("--target", choices=TARGETS, help="only this one")
    parser.add_argument("--again", type=Path, metavar="FILE", help="feed one file of tests/fuzz/crashes to --target")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    if chosen.again:
        with target(chosen.target or parser.error("--again needs --target")) as (function, _):
            function(chosen.again.read_bytes())
        print("nothing broke")
        return 0
    if chosen.child:
        fuzz(chosen.target, chosen.seconds)
    return run_all([chosen.target] if chosen.target else list(TARGETS), chosen.seconds)


def run_all(names: list[str], seconds: int) -> int:
    try:
        import atheris  # noqa: F401
    except ImportError as error:
        print(f"make fuzz: atheris cannot be used with this Python ({error}); nothing was fuzzed", file=sys.stderr)
        return 2
    CRASHES.mkdir(exist_ok=True)
    broken = []
    for name in names:
        share = max(1, seconds // len(names))
        print(f"== {name}: {share} seconds", flush=True)
        argv = [sys.executable, __file__, "--child", "--target", name, "--seconds", str(share)]
        if subprocess.run(argv, check=False).returncode:
            broken.append(name)
    if broken:
        print(f"== BROKEN: {', '.join(broken)}; the inputs are in {CRASHES.relative_to(ROOT)}")
        return 1
    print("== nothing broke")
    return 0


@contextlib.contextmanager
def target(name: str):  # type: ignore[no-untyped-def]  # the types are those of a module that is imported here
    """The function to feed, and what to begin with."""
    from tests.fuzz import targets

    if name == "dispatching":
        server = targets.Dispatching()
        yield server, list(server.calls())
        server.close()
    else:
        yield getattr(targets, name), []


def instrumented_compile(source: str, filename: str, mode: str) -> object:
    from atheris.instrument_bytecode import patch_code

    return patch_code(compile(source, filename, mode), trace_dataflow=True)


def fuzz(name: str, seconds: int) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["dittofs"]):
        import dittofs.xdr.source

        # What the XDR compiler writes is not seen by the import hook, so it is instrumented as it is compiled.
        dittofs.xdr.source.compile = instrumented_compile  # type: ignore[attr-defined]
        import dittofs.server
        import tests.fuzz.targets  # noqa: F401

    with target(name) as (function, seeds), tempfile.TemporaryDirectory(prefix="dittofs-corpus-") as corpus:
        for number, seed in enumerate(seeds):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        options = {
            "max_total_time": seconds,
            "timeout": SECONDS_FOR_ONE_INPUT,
            "rss_limit_mb": 2048,
            "max_len": 4096,
            "artifact_prefix": f"{CRASHES}/{name}-",
            "print_final_stats": 1,
            "verbosity": 1,
        }
        atheris.Setup([sys.argv[0], corpus, *(f"-{key}={value}" for key, value in options.items())], function)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
