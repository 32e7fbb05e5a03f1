"""A batch system on this machine, with a few jobs to look at: what `make serve` starts.

    python examples/serve/serve.py --state build/serve

It ends at Ctrl-C. The state stays, and jobs that run then go on; the next start finds them again.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import httpx

HERE: Final = Path(__file__).resolve().parent
PATIENCE_S: Final = 60.0
"""How long the service may take to start, in seconds."""

MUSTER: Final = (sys.executable, "-m", "muster")

INSTRUCTIONS: Final = """
Muster runs at {url}, and two queues of it have a few jobs.
Open this address in a browser and log in with the token below, or in another terminal:

    export MUSTER_TOKEN={token}
{export}    {cli} get asks                          # all jobs: which run, which wait
    {cli} why waiting/large                 # why one waits
    {cli} logs --follow array/part-5        # what one writes
    {cli} logs flaky/download --attempt 1   # why it failed the first time
    {cli} get queues
    {cli} decisions                         # everything that was decided; --follow: goes on

    curl -H "Authorization: Bearer $MUSTER_TOKEN" {url}/api/v1/apps
    curl -H "Authorization: Bearer $MUSTER_TOKEN" {url}/metrics

The jobs are in {jobs}, the queues in {queues},
the log of the service is {log}. Ctrl-C ends the service.
To begin anew, remove {state} first.
"""


def main() -> int:
    """Start the service, submit the jobs the first time, and wait for Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run Muster on this machine, with a few jobs.")
    parser.add_argument("--state", type=Path, required=True, help="where the state is kept")
    parser.add_argument("--listen", default="127.0.0.1:9080", help="where the service listens")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    state: Path = options.state
    is_new = not (state / "muster.db").exists()
    state.parent.mkdir(parents=True, exist_ok=True)
    log = state.with_name(f"{state.name}.log")
    # Without a token every user of this machine could run commands as this one.
    os.environ["MUSTER_TOKEN"] = token_for(state)
    try:
        with log.open("wb") as file, started(state, options.listen, file.fileno()) as process:
            try:
                return attend(process, f"http://{options.listen}", state, log, is_new=is_new)
            finally:
                process.terminate()  # once: it then ends in order, within ten seconds
    except KeyboardInterrupt:
        print("\nThe service has ended. Jobs that ran go on.")
        return 0


def token_for(state: Path) -> str:
    """Return the token of an administrator; it is made the first time, and kept for its owner."""
    kept, tokens = state.with_name(f"{state.name}.token"), tokens_of(state)
    if not (kept.exists() and tokens.exists()):
        tokens.unlink(missing_ok=True)
        new = [*MUSTER, "token", "new", "admin", "--role", "admin", "--tokens", str(tokens)]
        made = subprocess.run(new, check=True, stdout=subprocess.PIPE, text=True)
        kept.unlink(missing_ok=True)
        kept.touch(mode=0o600)
        kept.write_text(made.stdout)
    return kept.read_text().strip()


def tokens_of(state: Path) -> Path:
    """Return the file of the tokens."""
    return state.with_name(f"{state.name}.tokens")


def started(state: Path, listen: str, log: int) -> subprocess.Popen[bytes]:
    """Start the service, in a session of its own: Ctrl-C is for this program."""
    command = [*MUSTER, "serve", "--run", "local", "--config", str(HERE / "queues.yaml")]
    command += ["--state", str(state), "--listen", listen]
    # Only the user who has started this has a token, and the commands run as that user.
    command += ["--tokens", str(tokens_of(state)), "--trust-submitters"]
    return subprocess.Popen(command, stderr=log, start_new_session=True)


def attend(
    process: subprocess.Popen[bytes], url: str, state: Path, log: Path, *, is_new: bool
) -> int:
    """Wait until the service is ready, submit the jobs if it is new, and wait for its end."""
    if not is_ready(process, url):
        print(f"The service did not start; {log} ends with:", file=sys.stderr)
        print(log.read_text()[-2000:], file=sys.stderr)
        return 2
    if is_new:
        submit = [*MUSTER, "submit", str(HERE / "jobs.yaml"), "--server", url]
        if subprocess.run(submit, check=False).returncode != 0:
            return 2
    cli = Path(sys.executable).with_name("muster")
    shown = {
        "export": "" if url.endswith(":9080") else f"    export MUSTER_SERVER={url}\n",
        "cli": os.path.relpath(cli),
        "token": os.environ["MUSTER_TOKEN"],
        "jobs": os.path.relpath(HERE / "jobs.yaml"),
        "queues": os.path.relpath(HERE / "queues.yaml"),
    }
    print(INSTRUCTIONS.format(url=url, state=state, log=log, **shown), flush=True)
    return process.wait()


def is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until the service answers; return whether it does."""
    limit = time.monotonic() + PATIENCE_S
    with httpx.Client(trust_env=False) as client:
        while process.poll() is None and time.monotonic() < limit:
            try:
                if client.get(f"{url}/readyz").is_success:
                    return True
            except httpx.TransportError:
                pass  # it does not listen yet
            time.sleep(0.1)
    return False


if __name__ == "__main__":
    sys.exit(main())
