"""What clients did, as a table of passed and failed checks."""

from dataclasses import dataclass, field


@dataclass
class Report:
    lines: list[tuple[str, bool, str]] = field(default_factory=list)

    def add(self, what: str, has_passed: bool, shown: str) -> None:
        """Add a check, with what the client said."""
        self.lines.append((what, has_passed, " ".join(shown.split())[:160]))
        print(f"{'passed' if has_passed else 'FAILED'}  {what}\n        {self.lines[-1][2]}")

    def exit_code(self) -> int:
        """Return 0 if every check has passed; print how many have."""
        passed = sum(has_passed for _, has_passed, _ in self.lines)
        print(f"{passed} of {len(self.lines)} passed")
        return 0 if passed == len(self.lines) else 1
