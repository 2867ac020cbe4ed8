"""What a run tells, as data: `dimsolve run --json` prints one `RunReport`.

{"ok": true, "ranks": 2, "mesh": {"tp": 2}, "steps": [{"loss": 5.54, "seconds": 0.02, ...}], ...}
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """The base of all: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StepReport(Model):
    """One training step: the loss, the seconds it took on the first rank, the symbols' sizes.

    loss: None where there is nothing to train.
    """

    loss: float | None
    seconds: float
    sizes: dict[str, int]


class DifferencesReport(Model):
    """The largest relative differences from one device, over all steps and ranks.

    allowed: what rounding explains, of the widest dtype that the model's parameters have.
    """

    outputs: float
    loss: float
    gradients: float
    allowed: float


class BytesReport(Model):
    """Bytes of the parameters: of the whole model, and of the part on one rank."""

    whole: int
    per_rank: int


class ErrorReport(Model):
    """Why a run failed: on which rank, in which operator, with which local shapes."""

    rank: int | None = None
    operator: str = ""
    node: str = ""
    source: str = ""
    shapes: dict[str, str] = Field(default_factory=dict)
    reason: str


class RunReport(Model):
    """A run. ``ok``: whether it ended and, where it was compared, was equal to one device.

    differences: None where it was not compared, or failed before. notes: what else is to be known
    of the run, such as an axis that cuts nothing. overview: for people: shapes,
    legal counts and the plan in short.
    """

    ok: bool
    ranks: int
    mesh: dict[str, int]
    steps: list[StepReport] = Field(default_factory=list)
    differences: DifferencesReport | None = None
    parameter_bytes: BytesReport | None = None
    conditions: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    error: ErrorReport | None = None
    overview: list[list[list[str]]] = Field(default_factory=list, exclude=True)
    exit_code: int = Field(default=0, exclude=True)


class RunOptions(Model):
    """What to run. ``timeout``: seconds that a rank waits for another one.

    dtype: of the model's real parameters and inputs, as in torch; None leaves them as they are.
    """

    target: str
    mesh: str
    plan: str | None = None
    policy: str | None = None
    steps: int = 3
    verify: bool = True
    seed: int = 0
    timeout: float = 60.0
    device: str | None = None
    dtype: str | None = None
