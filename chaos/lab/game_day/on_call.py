"""The person on call: runs commands, watches the alerts and ``doctor``, and waits."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core.protocol.errors import RhumblineError
from ...managed_process import bare_environment, rhumbline_command
from .alert_log import AlertLog
from .prometheus import Prometheus
from .transcript import Transcript

COMMAND_S_MAX = 60.0
DOCTOR_PAUSE_S = 3.0
_ALERTS_PAUSE_S = 1.0
_POLL_S = 0.3
_FINDINGS_SHOWN = 5


class StepFailedError(RhumblineError):
    """A step of the game day did not end as it must."""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The result of one run of ``rhumbline doctor``."""

    began_s: float
    ended_s: float
    findings: tuple[tuple[str, str, str], ...]
    """(check, verdict, detail) of each finding that is not ok."""
    exit_code: int

    def is_green(self, expected: frozenset[tuple[str, str]]) -> bool:
        """Return whether there is no fault, and no warning but the expected (check, verdict)."""
        found = {(check, verdict) for check, verdict, _ in self.findings}
        return self.exit_code == 0 and found <= expected


class OnCall:
    """Commands in the folder of the cluster, and what they and the alerts showed over time."""

    def __init__(self, folder: Path, prometheus: Prometheus, transcript: Transcript) -> None:
        self.transcript = transcript
        self.alerts = AlertLog()
        self.checks: list[DoctorCheck] = []
        self.acted_s: float | None = None
        """When the last action was done that a recovery needs."""
        self.fault_s: float | None = None
        """When the fault of the step was injected; None if a command is all that happens."""
        self.waits_for = ""
        self._folder = folder
        self._prometheus = prometheus
        self._expected: frozenset[tuple[str, str]] = frozenset()
        self._shown = ""

    # --- what a person does ---------------------------------------------------------------------

    async def run(self, *arguments: str, seconds_max: float = COMMAND_S_MAX) -> int:
        """Run a command of ``rhumbline``, print it with its output, and return the exit code."""
        self.transcript.say(f"$ rhumbline {' '.join(arguments)}")
        began_s, line_count = self.transcript.now_s(), self.transcript.line_count
        self.waits_for = f"`rhumbline {' '.join(arguments)}`"
        code, output = await self._execute(arguments, seconds_max)
        if self.transcript.line_count > line_count:  # alerts came in between
            self.transcript.say(f"output of {self.waits_for}:")
        self.transcript.output(output)
        took_s = self.transcript.now_s() - began_s
        self.transcript.say(f"exit code {code}, after {took_s:.1f} s")
        return code

    async def must(self, *arguments: str, seconds_max: float = COMMAND_S_MAX) -> None:
        """Run a command that changes the cluster, print it, and fail the step if it fails."""
        code = await self.run(*arguments, seconds_max=seconds_max)
        if code:
            raise StepFailedError(f"`rhumbline {' '.join(arguments)}` failed: exit code {code}")
        self.acted_s = self.transcript.now_s()

    async def must_all(self, commands: Iterable[tuple[str, ...]]) -> None:
        """Run commands that prepare the cluster side by side, and print them."""

        async def prepare(arguments: tuple[str, ...]) -> None:
            code, output = await self._execute(arguments, COMMAND_S_MAX)
            self.transcript.say(f"$ rhumbline {' '.join(arguments)}")
            self.transcript.output(output)
            if code:
                raise StepFailedError(f"`rhumbline {' '.join(arguments)}` failed: exit code {code}")

        await asyncio.gather(*map(prepare, commands))

    async def output_of(self, *arguments: str) -> str:
        """Return what a command prints to standard output, without showing it."""
        code, output = await self._execute(arguments, COMMAND_S_MAX, has_errors=False)
        if code:
            raise StepFailedError(f"`rhumbline {' '.join(arguments)}` failed: exit code {code}")
        return output

    async def json(self, *arguments: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return what a command prints as JSON, without showing it."""
        return json.loads(await self.output_of(*arguments, "-o", "json"))

    def inject(self, text: str) -> None:
        """Print the command that is the fault of the step."""
        self.transcript.say(f"$ {text}")
        self.fault_s = self.transcript.now_s()

    def by_hand(self, text: str) -> None:
        """Print a command that is not run as it is shown, or a remark on what is done."""
        self.transcript.say(text if text.startswith("#") else f"$ {text}")
        self.acted_s = self.transcript.now_s()

    async def _execute(
        self, arguments: tuple[str, ...], seconds_max: float, *, has_errors: bool = True
    ) -> tuple[int, str]:
        name = f"`rhumbline {' '.join(arguments)}`"
        process = await asyncio.create_subprocess_exec(
            *rhumbline_command(*arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT if has_errors else asyncio.subprocess.DEVNULL,
            cwd=self._folder,
            env=bare_environment(),
        )
        output = b""
        try:
            async with asyncio.timeout(seconds_max):
                assert process.stdout is not None
                while chunk := await process.stdout.read(1 << 16):
                    output += chunk
                await process.wait()
        except TimeoutError:
            self.transcript.output(output.decode(errors="replace"))
            raise StepFailedError(f"{name} did not end in {seconds_max:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return process.returncode, output.decode(errors="replace")

    # --- what a person waits for ----------------------------------------------------------------

    async def until(self, is_reached: Callable[[], bool], what: str, *, seconds_max: float) -> None:
        """Wait. Raises StepFailedError if it takes too long."""
        self.waits_for = what
        try:
            async with asyncio.timeout(seconds_max):
                while not is_reached():  # noqa: ASYNC110 - observed from outside
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise StepFailedError(f"after {seconds_max:.0f} s still waiting for {what}") from None

    async def until_alert(self, name: str, *, seconds_max: float = 90.0) -> None:
        """Wait until an alert of this name fires."""
        await self.until(
            lambda: self.alerts.fires(name), f"the alert {name}", seconds_max=seconds_max
        )

    async def until_cleared(self, name: str, *, seconds_max: float = 120.0) -> None:
        """Wait until no alert of this name fires."""
        await self.until(
            lambda: not self.alerts.fires(name), f"the end of {name}", seconds_max=seconds_max
        )

    async def until_calm(self, *, seconds_max: float) -> None:
        """Wait until ``doctor`` is green in a check that began now or later, and no alert fires."""
        began_s = self.transcript.now_s()

        def is_calm() -> bool:
            fresh = [check for check in self.checks if check.began_s >= began_s]
            return bool(fresh) and self.is_green(fresh[-1]) and self.alerts.is_calm()

        await self.until(is_calm, "a green doctor and no alert", seconds_max=seconds_max)

    # --- what is watched ------------------------------------------------------------------------

    def is_green(self, check: DoctorCheck) -> bool:
        """Return whether a check found nothing that was not there before the first step."""
        return check.is_green(self._expected)

    def accept_present_state(self) -> None:
        """Expect what fires and what ``doctor`` warns of now for the rest of the day."""
        self.alerts.accept_firing()
        warnings = [f for f in self.checks[-1].findings if f[1] == "warning"]
        self._expected = frozenset((check, verdict) for check, verdict, _ in warnings)
        for check, _, detail in warnings:
            self.transcript.say(f"expected: doctor warns of {check}: {detail}")
        for span in self.alerts.firing():
            self.transcript.say(f"expected: {span.alert.name} {span.alert.subject}")

    async def watch_alerts(self) -> None:
        """Print alerts that fire and clear, until cancelled."""
        while True:
            try:
                alerts = await asyncio.to_thread(self._prometheus.alerts)
            except OSError as error:
                self.transcript.say(f"Prometheus does not respond: {error}")
            else:
                began, ended = self.alerts.observe(self.transcript.now_s(), alerts)
                for alert in began:
                    self.transcript.say(
                        f"ALERT    {alert.name} {alert.subject} ({alert.severity}): {alert.summary}"
                    )
                for alert in ended:
                    self.transcript.say(f"CLEARED  {alert.name} {alert.subject}")
            await asyncio.sleep(_ALERTS_PAUSE_S)

    async def watch_doctor(self) -> None:
        """Run ``rhumbline doctor`` repeatedly, and print when its verdict changes."""
        while True:
            await self._check()
            await asyncio.sleep(DOCTOR_PAUSE_S)

    async def _check(self) -> None:
        began_s = self.transcript.now_s()
        try:
            code, output = await self._execute(
                ("doctor", "-o", "json"), COMMAND_S_MAX, has_errors=False
            )
            rows = json.loads(output)
        except (StepFailedError, ValueError) as error:
            code, rows = 1, [{"check": "doctor", "verdict": "fault", "detail": str(error)}]
        found = tuple(
            (row["check"], row["verdict"], row["detail"]) for row in rows if row["verdict"] != "ok"
        )
        check = DoctorCheck(began_s, self.transcript.now_s(), found, code)
        self.checks.append(check)
        new = [f for f in found if f[:2] not in self._expected]
        shown = "; ".join(f"{name}: {detail}" for name, _, detail in new[:_FINDINGS_SHOWN])
        if len(new) > _FINDINGS_SHOWN:
            shown += f"; {len(new) - _FINDINGS_SHOWN} more"
        if shown != self._shown:
            self.transcript.say(f"doctor   {f'is red: {shown}' if shown else 'is green'}")
            self._shown = shown
