"""Options of commands, each declared once: one decorator gives a command blocks of them; `--help` shows the most used ones."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from adjudge.data import options
from adjudge.data.options import DEFAULTS, SET_SEPARATOR, Defaults, ModelName, ReadOptions
from adjudge.errors import OptionError

# The groups of options in `--help`, in the order in which they are shown. An option joins one by being made by it.
for_input: Final = partial(typer.Option, rich_help_panel="Input")
for_model: Final = partial(typer.Option, rich_help_panel="Model")
for_knowledge: Final = partial(typer.Option, rich_help_panel="What you know")
for_output: Final = partial(typer.Option, rich_help_panel="Output")
for_engine: Final = partial(typer.Option, rich_help_panel="Engine")
HELP_PANELS: Final = (
    "Arguments",
    *(each.keywords["rich_help_panel"] for each in (for_input, for_model, for_knowledge, for_output, for_engine)),
)
# The parameters that `--help` explains, for commands with many; it lists the others by name. `--help-all` explains all of them.
MOST_USED: Final[Mapping[str, tuple[str, ...]]] = {
    "aggregate": ("output", "model", "gold", "workers", "report"),
    "predict": ("using", "output", "workers", "probabilities", "confidence"),
    "compare": ("truth", "gold", "models", "output", "cluster"),
    "agreement": ("scale", "truth", "pairs", "matrix", "groups"),
    "explain": ("using", "model", "gold", "by", "settled"),
    "ask-next": ("number", "ask", "cost", "budget", "output"),
    "report": ("output", "truth", "gold", "model", "title"),
    "draw-gold": ("number", "error", "output", "to", "model"),
    "certify": ("gold", "draw", "error", "risk", "output"),
    "check": ("require", "gold", "baseline", "no_worse", "markdown"),
    "panel": ("cost", "budget", "truth", "model", "within"),
    "rates": ("by", "gold", "baseline", "cluster", "output"),
    "rank": ("left", "right", "winner", "output", "judges"),
    "scores": ("gold", "threshold", "output", "judges", "report"),
    "bias": ("by", "table", "gold", "cluster", "output"),
    "push": ("url", "token", "model", "gold", "groups"),
    "serve": ("store", "labels", "policy", "port", "model"),
    "vote": ("url", "token", "campaign", "retract", "as_json"),
    "encode": ("output", "memory", "resume", "labels", "wide"),
    "stream": ("output", "state", "labels", "model", "available_now"),
}
SHOWN_EXAMPLES: Final = 3  # in `--help` of these commands
MOST_USED_PANEL: Final = "Most used"
OTHERS_PANEL: Final = "More options (--help-all explains them)"
JOINED_BY_COMMAS: Final = "joined by commas"  # in the help of options that take several values at once
HELP_ALL: Final = "adjudge.help_all"  # set in the context of a command for which every option is explained

Flags: TypeAlias = dict[str, Any]  # the values of a block of options, by the names that the library has for them
Example: TypeAlias = tuple[str, str]  # what it does, and the command


def one_of(choices: Any) -> Callable[[str], list[str]]:
    """Return what completes a value in a shell: the words of a literal type, or these words.

    >>> one_of(options.Ties)(""), one_of(("any", "all"))("an")
    (['hash', 'prior'], ['any'])
    """
    values = [value for value in get_args(choices) or choices if isinstance(value, str)]

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def _formats(incomplete: str) -> list[str]:
    """Return the formats whose names begin so, for a shell to complete.

    >>> _formats("label")
    ['label-studio', 'label-studio-min']
    """
    from adjudge.io.formats.registry import AUTO, FORMATS, TABLE

    return [name for name in (AUTO, TABLE, *FORMATS) if name.startswith(incomplete)]


def split_words(text: str, what: str = "labels") -> list[str]:
    """Return labels, or `what` else is joined by commas, as a list.

    >>> split_words("cat, dog")
    ['cat', 'dog']
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise OptionError(f"{what} is {text!r}: give {what} joined by commas, none of them empty")
    return parts


def split_numbers(text: str, what: str, kind: type[float] = float, like: str = "5,2,1") -> list[Any]:
    """Return numbers joined by commas as a list.

    >>> split_numbers("1,3", "sizes", int)
    [1, 3]
    """
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        what_kind = "whole numbers" if kind is int else "numbers"
        raise OptionError(f"{what} is {text!r}: give {what_kind} joined by commas, like {like}") from None


def existing_file(text: str | None) -> Path | None:
    """Return the file that an option names, if there is one."""
    return Path(text) if text is not None and Path(text).exists() else None


def number_or_word(text: str) -> float | str:
    """Return a number, or a word for the option's rule to accept or refuse.

    >>> number_or_word("0.5"), number_or_word("auto")
    (0.5, 'auto')
    """
    try:
        return float(text)
    except ValueError:
        return text


def _parse_priors(text: str) -> dict[str, float] | str:
    """Return class priors by label; a word is left for the option's rule.

    >>> _parse_priors("cat=0.3, dog=0.7"), _parse_priors("uniform")
    ({'cat': 0.3, 'dog': 0.7}, 'uniform')
    """
    if "=" not in text:
        return text
    priors: dict[str, float] = {}
    for label, _, value in (part.rpartition("=") for part in text.split(",")):
        if label.strip() in priors:
            raise OptionError(f"priors name the label {label.strip()!r} twice: give one probability for each")
        try:
            priors[label.strip()] = float(value)
        except ValueError:
            raise OptionError(f"priors is {text!r}: give label=probability joined by commas, or uniform") from None
    return priors


def _parse_excluded(text: str) -> Path | list[str]:
    """Return excluded workers: the file of this name if there is one, else ids joined by commas."""
    ids = [part.strip() for part in text.split(",")]
    if not all(ids) and not Path(text).exists():
        raise OptionError(f"exclude is {text!r}: give workers joined by commas, none of them empty, or a file")
    return existing_file(text) or ids


def parse_cost(text: str) -> Any:
    """Return the cost of a vote: a number, numbers by worker, or a file.

    >>> parse_cost("0.5"), parse_cost("ann=0.2, bob=0.5")
    (0.5, {'ann': 0.2, 'bob': 0.5})
    """
    try:
        if (file := existing_file(text)) is not None or "=" not in text:
            return file or float(text)
        pairs = [part.rpartition("=") for part in text.split(",")]
        return {worker.strip(): float(price) for worker, _, price in pairs}
    except ValueError:
        raise OptionError(f"--cost is {text!r}: give a number, worker=number joined by commas, or a table worker, cost") from None


def _print_all_help(context: typer.Context, wanted: bool) -> None:
    """Print the help with every option and example, and leave."""
    if wanted and not context.resilient_parsing:
        context.meta[HELP_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", is_eager=True, callback=_print_all_help, help="Show all options and examples, and exit."),
]


class Declared(NamedTuple):
    """An option of a block: its type and flag, its default, and what turns a typed value into the library's."""

    annotation: Any
    default: Any = None
    convert: Callable[[Any], Any] | None = None


VOTES_HELP: Final = (
    "Files or patterns: csv, tsv, json, jsonl, parquet, arrow, xlsx, .gz or .zst; exports of annotation tools; "
    "a folder of `encode`; - is stdin."
)
ANY_MODEL: Final = f"{', '.join(get_args(ModelName))}."
# Options that commands have one by one.
VotesFiles = Annotated[list[str], typer.Argument(metavar="VOTES", help=VOTES_HELP)]
Model = Annotated[str, for_model("-m", "--model", help=ANY_MODEL)]
Gold = Annotated[str | None, for_knowledge(help="Known labels of some tasks, to learn from.")]
Groups = Annotated[
    str | None, for_knowledge(help="Workers who vote as one: a table worker, group; answers_like; or families (of models).")
]
Multi = Annotated[bool, for_input("--multi", help="Votes are sets of options, joined by | or as lists.")]
Cost = Annotated[str | None, for_knowledge(help="What a vote costs: a number, ann=0.2,bob=0.5, or a table worker, cost.")]
Threads = Annotated[int | None, for_engine(help="Threads to use (default: all cores).")]
Resamples = Annotated[int, for_model(help="Resamples of the tasks for each interval; 0 for none.")]
Cluster = Annotated[
    str | None,
    for_input(
        help="Prompt, document or conversation of each task, whose tasks depend on each other: a column, or a table; '' for none."
    ),
]
Level = Annotated[float, for_model(help="Level of the intervals.")]
Json = Annotated[bool, for_output("--json", help="Print one JSON document instead of tables.")]
Silent = Annotated[bool, for_output("--quiet", help="Print nothing but warnings.")]
DataOnly = Annotated[bool, for_output("--quiet", help="Print only data.")]

# What the options of `adj.read` say of themselves, in the order of `--help`.
READING_HELP: Final[Mapping[str, str]] = {
    "task": "Column of the task.",
    "worker": "Column of the worker.",
    "label": "Column of the label.",
    "weight": "Column of vote weights; 0 means abstain (default: 1).",
    "labels": "The labels in order, joined by commas.",
    "wide": "One line per task, one column per worker (--worker 'judge_*' says which).",
    "count": "Column with the number of votes that a line stands for; mv then needs no worker.",
    "abstain": "Labels that are abstentions, joined by commas: NA,skip or -1.",
    "normalize": "Join labels that differ only in case or white space.",
    "strict": "Fail if votes look misread, instead of warning.",
    "separator": "Field separator of text files, if the header does not show it.",
    "encoding": "Encoding of text files that are not UTF-8, such as cp1252 or latin-1.",
    "header": "The first line is a vote: task, worker, label; or --task 2 --worker 1 --label 3.",
    "set_separator": "With sets: the separator of options.",
    "duplicates": "Repeated votes: all, last, first or error.",
    "format": "auto (recognise exports by content), the name of one (label-studio, mturk, …; see docs/formats.md), or table.",
    "question": "The question to read from an export with several; all: each in turn.",
    "show": "Columns with the content of tasks, joined by commas, to show with their ids.",
    "predictions": "Let models whose predictions are in an export vote, too.",
}
READING_DEFAULTS: Final = {"duplicates": DEFAULTS.duplicates, "set_separator": SET_SEPARATOR, "format": "auto"}
READING_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "labels": split_words,
    "abstain": lambda text: [word.strip() or word for word in text.split(",")],  # a label may be a space
    "show": partial(split_words, what="columns"),
    "separator": lambda text: "\t" if text in (r"\t", "tab") else text,
    "header": lambda no_header: not no_header,
}
# The same of the settings of models; one that is not typed is left to the model.
SETTING_HELP: Final[Mapping[str, str]] = {
    "strength": "Pseudo-votes of the mean worker per worker, or auto; 0 is the paper.",
    "seed": "Decides ties.",
    "smoothing": "Pseudo-count added to every cell of every confusion; 0 is the paper.",
    "tol": "Stop when the priors (glad: the objective) change by less than this.",
    "max_iter": "Maximum number of iterations.",
    "switch": "hybrid: make passes hard when the priors change by at most this.",
    "stop": "priors, or labels: stop when no label changed.",
    "ties": "hash, or prior: ties go to the more frequent label.",
    "accelerate": "ds, hybrid, one-coin: fewer soft passes, by extrapolation.",
}
# What a shell completes: the words that an option of this name may be, on every command that says nothing else.
CHOICES: Final[Mapping[str, Any]] = {
    "engine": options.EngineName,
    "model": ModelName,
    "confidence": options.Confidence,
    "duplicates": options.Duplicates,
    "stop": options.Stop,
    "ties": options.Ties,
    "groups": ("answers_like", "families"),
    "priors": ("uniform",),
    "to": ("auto", "table", "label-studio", "argilla", "argilla-flat", "inspect"),
}


def _reading() -> dict[str, Declared]:
    """Return the options of `adj.read`: those that are True or False as flags, anything else as text."""
    kinds, declared = get_type_hints(ReadOptions), {}
    for name, text in READING_HELP.items():
        default = False if kinds[name] is bool else READING_DEFAULTS.get(name)
        kind = str | None if default is None else type(default)
        flag = "--no-header" if name == "header" else f"--{name.replace('_', '-')}"
        made = for_input(flag, help=text, autocompletion=_formats if name == "format" else None)
        declared[name] = Declared(Annotated[kind, made], default, READING_VALUES.get(name))
    return declared


def _settings() -> dict[str, Declared]:
    """Return the settings of models, with the default that the model has shown."""
    kinds, declared = get_type_hints(Defaults), {}
    for name, text in SETTING_HELP.items():
        shown = kinds[name] is not bool and str(getattr(DEFAULTS, name))
        kind = (kinds[name] if isinstance(kinds[name], type) else str) | None
        made = for_model(f"--{name.replace('_', '-')}", help=text, show_default=shown)
        declared[name] = Declared(Annotated[kind, made], None, number_or_word if name == "strength" else None)
    return declared


# Blocks of options. A command with a keyword-only parameter of this name has these options, and gets their values as a dict.
BLOCKS: Final[Mapping[str, Mapping[str, Declared]]] = {
    "truth": {
        "truth": Declared(Annotated[Path | None, for_knowledge(help="Known labels to measure by; never learned from.")]),
        "truth_task": Declared(Annotated[str | None, for_knowledge(help="Column of the task in the truth.")]),
        "truth_label": Declared(Annotated[str | None, for_knowledge(help="Column of the label in the truth.")]),
    },
    "knowledge": {
        "gold": Declared(Gold),
        "history": Declared(Annotated[Path | None, for_knowledge(help="A saved model, or a table worker, true, given, count.")]),
        "priors": Declared(
            Annotated[str | None, for_knowledge(help="Class priors: cat=0.3,dog=0.7 or uniform.")], convert=_parse_priors
        ),
        "priors_weight": Declared(
            Annotated[float | None, for_knowledge(help="Strength of the priors, in pseudo-tasks (default: fixed priors).")]
        ),
        "warm_start": Declared(Annotated[Path | None, for_knowledge(help="A saved model to start from.")]),
        "calibrate": Declared(Annotated[bool, for_knowledge("--calibrate", help="Fit a temperature on the gold.")], False),
        "groups": Declared(Groups),
        "exclude": Declared(
            Annotated[
                str | None,
                for_knowledge(help="Workers left out: a file (a table with a worker column, or an id per line), or w1,w2."),
            ],
            convert=_parse_excluded,
        ),
    },
    "settings": {"model": Declared(Model, DEFAULTS.model), **_settings()},
    "resources": {
        "engine": Declared(
            Annotated[str, for_engine(help="auto, reference, cpu, disk (votes beyond memory), cuda (a GPU) or spark.")],
            DEFAULTS.engine,
        ),
        "threads": Declared(Threads),
        "memory": Declared(
            Annotated[
                str | None,
                for_engine(help="Memory limit, like 2GB; votes that do not fit go to disk. With cuda: of each device."),
            ]
        ),
    },
    "fit": {
        "using": Declared(
            Annotated[
                Path | None,
                for_knowledge(help="A model that `adjudge aggregate --save` wrote: it decides, and nothing is learned."),
            ]
        ),
        "model": Declared(Model, DEFAULTS.model),
        "seed": Declared(Annotated[int, for_model(help=SETTING_HELP["seed"])], DEFAULTS.seed),
        "gold": Declared(Gold),
        "groups": Declared(Groups),
        "threads": Declared(Threads),
        "multi": Declared(Multi, False),
    },
    "how_read": _reading(),
}


def command(
    *examples: Example, only: Sequence[str] = (), without: Sequence[str] = (), **choices: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command its blocks of options, and examples for `--help`.

    A block is a keyword-only parameter with a name of `BLOCKS`. `without` leaves out options, `only` all others of reading.
    `choices` are the words that a shell completes, by the name of the parameter, if they differ from `CHOICES`.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters
        names = [name for name, parameter in own.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        blocks = {name: {flag: one for flag, one in BLOCKS[name].items() if flag not in without} for name in names}
        if only:
            blocks["how_read"] = {flag: BLOCKS["how_read"][flag] for flag in only}

        @wraps(function)
        def run(**typed: Any) -> None:
            typed.pop("help_all", None)  # its callback has printed the help
            values = {name: {flag: _value(typed.pop(flag), one) for flag, one in block.items()} for name, block in blocks.items()}
            function(**typed, **values)

        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [parameter.replace(kind=kind) for name, parameter in own.items() if name not in blocks]
        for block in blocks.values():
            parameters += [
                inspect.Parameter(flag, kind, default=one.default, annotation=one.annotation) for flag, one in block.items()
            ]
        parameters.append(inspect.Parameter("help_all", kind, default=False, annotation=HelpAll))
        for parameter in parameters:
            words = choices.get(parameter.name, CHOICES.get(parameter.name))
            if words is not None:
                parameter.annotation.__metadata__[0].autocompletion = one_of(words)
        made: Any = run
        made.__signature__ = inspect.Signature(parameters)
        made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}  # evaluated: typer need not
        made.examples = examples
        return run

    return decorate


def _value(typed: Any, declared: Declared) -> Any:
    return typed if typed is None or declared.convert is None else declared.convert(typed)


def add_command(app: typer.Typer, name: str, function: Any, panel: str | None = None) -> None:
    """Add a command, or a group of commands, to the command line; `--help` lists it in a panel."""
    if isinstance(function, typer.Typer):
        app.add_typer(function, name=name, rich_help_panel=panel)
        return
    examples = "\n".join(f"{what}\n  {line}" for what, line in getattr(function, "examples", ()))
    app.command(name, cls=PlainCommand, epilog=examples, rich_help_panel=panel)(function)


def list_typed_options(context: Any, panel: str) -> dict[str, tuple[str, ...]]:
    """Return the options of a panel that were typed, as one would type them again, by the name of their parameter."""
    typed = [
        parameter
        for parameter in context.command.params
        if getattr(parameter, "rich_help_panel", None) == panel
        and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    ]
    return {one.name: (one.opts[-1], *(() if one.is_flag else (str(context.params[one.name]),))) for one in typed}


def show_version(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    """Turn annotations (task, worker, label) into decisions."""
    if version:
        from adjudge import __version__

        typer.echo(__version__)
        raise typer.Exit


class PlainCommand(TyperCommand):
    """A command that spares flags, text and paths the validation of typer, which loads a library as large as NumPy for it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; a list that is given twice is an error, as the parser would drop the first.

        Of any other option the last value counts, as usual, so that aliases and scripts can be overridden.
        """
        if not ctx.resilient_parsing:
            typed: list[Any] = list(self.make_parser(ctx).parse_args(list(args))[2])
            lists = [one for one in typed if JOINED_BY_COMMAS in (getattr(one, "help", None) or "")]
            for parameter, times in Counter(lists).items():
                if times > 1 and not getattr(parameter, "multiple", False):
                    ctx.fail(f"{parameter.opts[-1]} is given {times} times: give it once, its values joined by commas")
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        return [_plain(parameter) for parameter in super().get_params(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description, or only its first sentence if the help is short."""
        text = (self.help or "").strip().split("\n\n")
        for paragraph in text[:1] if self._most_used(ctx) else text:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(paragraph)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by group; those without a group come last, `--help` among them."""
        most_used = self._most_used(ctx)
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", MOST_USED_PANEL, *HELP_PANELS)}
        others: dict[str, list[str]] = {name: [] for name in HELP_PANELS}
        last: list[tuple[str, str]] = []
        for parameter in sorted(self.get_params(ctx), key=lambda one: most_used.index(one.name) if one.name in most_used else 9):
            shown, panel = parameter.get_help_record(ctx), getattr(parameter, "rich_help_panel", None)
            if shown is None:
                continue
            if parameter.name in most_used:
                groups[MOST_USED_PANEL].append(shown)
            elif parameter.param_type_name == "argument":
                groups["Arguments"].append(shown)
            elif parameter.name in ("help", "help_all") or not (panel or most_used):
                last.append(shown)
            elif most_used:
                others.setdefault(panel or "Other", []).append(parameter.opts[-1])
            else:
                groups.setdefault(str(panel), []).append(shown)
        listed = [(name, ", ".join(flags)) for name, flags in others.items() if flags]
        _write_sections(formatter, {**groups, OTHERS_PANEL: listed, "Options": last})

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples without wrapping, so that they can be copied."""
        lines = (self.epilog or "").splitlines()
        if lines:
            with formatter.section("Examples"):
                shown = lines[: 2 * SHOWN_EXAMPLES] if self._most_used(ctx) else lines
                formatter.write("".join(f"  {line}\n" for line in shown))

    def _most_used(self, ctx: Any) -> tuple[str, ...]:
        """Return the parameters that a short help explains; none if the help is not short."""
        return () if ctx.meta.get(HELP_ALL) else MOST_USED.get(self.name or "", ())


class PlainGroup(TyperGroup):
    """The same for what precedes the name of a command; alone, it shows its help, and commands in their panels."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments for the command; without any, print the help to stdout and leave."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        return [_plain(parameter) for parameter in super().get_params(ctx)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            one = self.commands[name]
            panels.setdefault(getattr(one, "rich_help_panel", None) or "Commands", []).append((name, one.get_short_help_str(100)))
        _write_sections(formatter, panels)


def _write_sections(formatter: Any, sections: Mapping[str, list[tuple[str, str]]]) -> None:
    """Write lists of names and explanations; explanations make one column over all of them, and flags are not divided."""
    widest = max(len(name) for lines in sections.values() for name, _ in lines)
    fill = partial(textwrap.fill, width=max(formatter.width - widest - 4, 20), break_on_hyphens=False)
    for title, lines in sections.items():
        if lines:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), f"\b\n{fill(text)}" if text else "") for name, text in lines])


def _plain(parameter: Any) -> Any:
    described = getattr(parameter, "type_descriptor", None)  # an older typer has none, and loads nothing
    if described is not None and "process_value" not in vars(parameter):
        parameter.process_value = partial(_process, parameter, described.annotation, parameter.process_value)
    return parameter


def _process(parameter: Any, kind: object, check: Callable[[Any, Any], Any], context: Any, typed: Any) -> Any:
    """Turn what was typed for a parameter into its value: as it is if that is right, else by typer's `check`."""
    value = typed
    if kind is Path and isinstance(typed, str):
        value = Path(typed)
    elif kind == list[str] and isinstance(typed, list | tuple) and typed and all(isinstance(one, str) for one in typed):
        value = list(typed)
    elif not (isinstance(typed, str) and kind is str) and (typed is not None or parameter.required):
        return check(context, typed)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)
