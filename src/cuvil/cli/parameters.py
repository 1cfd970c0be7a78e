"""Arguments and options that several verbs share, with their help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="An .onnx or .pt2 file, or PACKAGE.MODULE:NAME, a Python module, class or function "
        "that gives an nn.Module (or a pair of one and its example inputs). The latter is "
        "imported and run, from this folder or from what is installed.",
        show_default=False,
    ),
]
ArtifactArgument = Annotated[
    str, typer.Argument(metavar="ARTIFACT", help="A .cuvilpkg file.", show_default=False)
]
EitherArgument = Annotated[
    str,
    typer.Argument(
        metavar="ARTIFACT|MODEL",
        help="A .cuvilpkg file; or an .onnx or .pt2 file, or PACKAGE.MODULE:NAME (which runs it).",
        show_default=False,
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="X=@FILE",
        help="One input: X=@x.npy (a map: X=@x.json), or X=random to make one up. @all.npz gives "
        "inputs by name, random makes up all that are not given. May be repeated.",
    ),
]
SizesOption = Annotated[
    str,
    typer.Option("--at", metavar="N=8,..", help="Sizes of symbolic dims, for made-up inputs."),
]

AtolOption = Annotated[
    float | None,
    typer.Option(
        min=0, help="Error allowed, of the output's scale. Default: 1e-5 (f16 4e-3, bf16 3e-2)."
    ),
]
RtolOption = Annotated[
    float | None,
    typer.Option(
        min=0, help="Error allowed, of each element. Default: 1e-3 (f16 4e-3, bf16 3e-2)."
    ),
]


@dataclass(frozen=True)
class Common:
    """What every verb takes."""

    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, all else on stderr.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what is done to stderr.")
    ] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False


@dataclass(frozen=True)
class ModelOptions:
    """How a model is captured and compiled."""

    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X:1x3x8x8",
            help="An input's shape; X:i64[batch,seq] names dtype and symbolic dims. One for each "
            "input of a PyTorch model; an ONNX model declares its own. May be repeated.",
        ),
    ] = None
    dynamic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X:0=N:1..64",
            help="Axis 0 of X stays symbolic as N, from 1 to 64. May be repeated.",
        ),
    ] = None
    constraint: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='A fact about dims: "seq % 8 == 0". May be repeated.'),
    ] = None
    target: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help="What to build for: see `cuvil targets`. `cuvil compile` takes several, A,B, and "
            "all-available: all that this machine can verify.",
        ),
    ] = "native"
    precision: Annotated[
        str, typer.Option(metavar="P", help="What products with constants multiply: f32 or bf16.")
    ] = "f32"
    no_fusion: Annotated[
        bool, typer.Option("--no-fusion", help="One kernel an operator, to find a fault.")
    ] = False
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Build anew; what is built is kept all the same.")
    ] = False
    fuel: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Make only the first N rewrites, to find a fault."),
    ] = None
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS|FILE",
            help="Measure for about so many seconds how the kernels are best run on this machine; "
            "or take what was found from a package that was tuned, or from its table as JSON.",
        ),
    ] = None
    variants: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=1,4,16..|auto",
            help="Kernels get versions for these sizes and ranges (both ends included) of a "
            "symbolic dim, where their code differs; auto measures which gain something. May be "
            "repeated.",
        ),
    ] = None
    retune: Annotated[
        bool,
        typer.Option(
            "--retune",
            help="A process that loads the artifact measures kernels anew in ranges of sizes that "
            "have become slow, beside its calls.",
        ),
    ] = False
