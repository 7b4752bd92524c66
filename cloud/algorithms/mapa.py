"""MAPA: the learning rate, and the clip norm with it, change in stages.

Source: Liu et al., "Multi-stage asynchronous federated learning with adaptive differential privacy", arXiv
    1912.07902, Algorithm 1, Theorem 3, Equations 13-16.
Symbols: theta -> clip_factor, L and L_0 -> smoothness, sigma -> gradient_std, f(x1) - f* -> gap, C_1 -> clip norm of
    the first stage, delta of Theorem 3 -> first_clip_delta (no privacy parameter), T -> stop.updates, S -> stages.
Deviations: with `rigour: rigorous` per-sample clipping, the mechanism's own noise energy and a gradient_std that
    clipping bounds; three controllers:

    closed_loop  (default) finds the rate's scale by private looks at the loss
    budgeted     fixed stages of lengths 1 : 2 : 4 ... that fill the run; needs a decent smoothness
    literal      the paper's own stage lengths; the only one with `rigour: paper`

    `docs/algorithms/mapa.md` has the equations, every deviation and how they were checked.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat

from cloud.closed_loop import ClosedLoop, Judgement
from cloud.controller import LARGEST_CLIP, SMALLEST_CLIP, Controller, Setting, check_ranges
from cloud.open_loop import OpenLoop, budgeted_stages, literal_stages
from cloud.search import SearchSettings, SecantSettings, build_search
from cloud.stages import Ground, first_sensitivity
from common.errors import ConfigError, Fault
from common.section import Positive, Section

UNKNOWN_SMOOTHNESS = 10.0
UNKNOWN_BOUND = 10.0
PAPER_GRADIENT_STD = 30.0


class Settings(Section):
    """What the cloud reads for MAPA."""

    controller: Literal["closed_loop", "budgeted", "literal"] | None = Field(
        default=None, description="none: closed_loop, or literal where rigour is paper"
    )
    smoothness: Positive | None = Field(default=None, description="none: the model's public bound, or 10")
    gradient_std: Positive | None = Field(default=None, description="none: the clip norm (paper: 30)")
    gap: Positive | None = Field(default=None, description="none: the model's, e.g. ln(classes)")
    first_clip_norm: Positive | None = Field(default=None, description="none: the run's (paper: by Theorem 3)")
    first_clip_delta: float = Field(default=1e-3, gt=0, lt=1, description="paper: tail of Theorem 3's rule")
    clip_factor: float | None = Field(
        default=None,
        ge=1e-6,
        lt=1,
        description="clip norm of a stage over the one before; none: 0.7 closed loop, else 0.5",
    )
    stages: int = Field(default=4, ge=1, le=50, description="budgeted: how many")
    gate: float = Field(
        default=0.6, gt=0, le=1, description="closed loop: the clip norm falls if it holds so many norms"
    )
    margin: FiniteFloat = Field(default=2.0, ge=0, description="closed loop: standard deviations taken for noise")
    visible: FiniteFloat = Field(default=0.1, ge=0, description="closed loop: smaller rises, over the gap, are no harm")
    cap: Positive = Field(default=2.5, description="closed loop: one record's loss counts up to this, over the gap")
    search: SearchSettings = SecantSettings()


def build(setting: Setting, settings: Settings) -> Controller:
    """The controller that the settings name.

    Raises:
        ConfigError: a run that it cannot control.
    """
    is_paper = setting.rigour == "paper"
    controller = settings.controller or ("literal" if is_paper else "closed_loop")
    if is_paper and controller != "literal":
        raise ConfigError(Fault("algorithm.cloud.controller", controller, "literal, where algorithm.rigour is paper"))
    clip_norm, ground = _ground(setting, settings)
    if controller == "literal":
        stages = literal_stages(ground, clip_norm, settings.clip_factor or 0.5)
        return OpenLoop(stages, setting.batch_size)
    if setting.updates is None:
        raise ConfigError(Fault("stop.updates", None, f"a number: {controller} divides the run into stages"))
    if controller == "budgeted":
        factor = settings.clip_factor or 0.5
        return OpenLoop(
            budgeted_stages(ground, clip_norm, factor, setting.updates, settings.stages), setting.batch_size
        )
    if setting.probes < 1:
        raise ConfigError(Fault("algorithm.edge.probes", setting.probes, "at least 1: closed_loop asks them"))
    judgement = Judgement(
        clip_factor=settings.clip_factor or 0.7,
        gate=settings.gate,
        margin=settings.margin,
        visible=settings.visible,
        cap=settings.cap * ground.gap,
        cooldown=settings.search.cooldown,
        probes=setting.probes,
    )
    return ClosedLoop(ground, clip_norm, setting.updates, judgement, build_search(settings.search, setting.updates))


def _ground(setting: Setting, settings: Settings) -> tuple[float, Ground]:
    """The first clip norm and the constants: public bounds where rigorous, the paper's numbers where literal."""
    is_paper = setting.rigour == "paper"
    bound = settings.first_clip_norm or setting.clip_norm or setting.lipschitz or UNKNOWN_BOUND
    gradient_std = settings.gradient_std or (PAPER_GRADIENT_STD if is_paper else bound)
    smoothness = settings.smoothness or (None if is_paper else setting.smoothness) or UNKNOWN_SMOOTHNESS
    if is_paper and settings.first_clip_norm is None:
        sensitivity = first_sensitivity(gradient_std, setting.batch_size, settings.first_clip_delta)
        bound = setting.batch_size * sensitivity / 2.0
    gap = settings.gap or setting.gap
    constants = {"smoothness": smoothness, "gradient_std": gradient_std, "gap": gap}
    check_ranges(
        "algorithm.cloud",
        {name: (value, 1e-20, 1e20) for name, value in constants.items()}
        | {"first_clip_norm": (bound, SMALLEST_CLIP, LARGEST_CLIP)},
    )
    ground = Ground(
        batch_size=setting.batch_size,
        noise_energy=setting.kappa,
        staleness=setting.staleness,
        smoothness=smoothness,
        gap=gap,
        gradient_std=gradient_std,
        is_clipped_std=not is_paper,
        averaged=setting.averaged,
    )
    return bound, ground
