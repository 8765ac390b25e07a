"""Which package may import which, where Spark may be imported, and how long a file may be."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS: dict[str, set[str]] = {
    "base": set(),
    "sql": set(),
    "store": set(),
    "journal": set(),
    "spec": {"journal", "store"},
    "decode": set(),
    "pipeline": {"journal", "spec", "store"},
    "alerting": {"journal", "pipeline", "spec"},
    "source": {"decode", "spec"},
    "plan": {"decode", "source", "spec"},
    "ledger": {"pipeline", "plan", "source", "store"},
    "history": {"journal", "pipeline"},
    "watch": {"alerting", "journal", "pipeline", "spec"},
    "capture": {"decode", "journal", "ledger", "pipeline", "plan", "source", "spec", "sql", "store"},
    "spark": {"capture", "journal", "spec", "store"},
    "destination": {"capture", "decode", "journal", "ledger", "plan", "source", "spark", "spec", "store"},
    "explore": {"capture", "decode", "destination", "ledger", "pipeline", "spec", "store"},
    "audit": {"capture", "decode", "destination", "journal", "ledger", "pipeline", "source", "spec", "store"},
    "backup": {"capture", "decode", "destination", "ledger", "pipeline", "spec", "store"},
    "verify": {"capture", "decode", "destination", "journal", "ledger", "pipeline", "plan", "source", "spec", "store"},
    "status": {
        "alerting",
        "capture",
        "decode",
        "destination",
        "explore",
        "journal",
        "ledger",
        "pipeline",
        "plan",
        "source",
        "spec",
        "watch",
    },
    "run": {
        "alerting",
        "audit",
        "capture",
        "decode",
        "destination",
        "journal",
        "ledger",
        "pipeline",
        "plan",
        "source",
        "spark",
        "spec",
        "sql",
        "status",
        "store",
        "verify",
        "watch",
    },
    "cli": {
        "alerting",
        "audit",
        "backup",
        "capture",
        "explore",
        "pipeline",
        "plan",
        "run",
        "source",
        "spec",
        "status",
        "verify",
        "watch",
    },
    "__main__": {"cli"},
    "app": {
        "alerting",
        "decode",
        "explore",
        "history",
        "journal",
        "pipeline",
        "plan",
        "source",
        "spec",
        "watch",
        "store",
    },
}
"""The rooms that each room may import besides `base`. Every room may import `engine` itself, for its version."""
WRONG_READERS = {"to_pyarrow_table", "to_pyarrow_dataset", "to_pandas"}
RIGHT_READS = {
    ("engine/destination/delta/read/file_rows.py", "to_pyarrow_dataset"),  # of tables without deletion vectors
    ("app/screens/explore.py", "to_pandas"),  # of an Arrow table
}
INNER: dict[str, dict[str, set[str]]] = {
    "run": {
        "source_loss": set(),
        "commands": {"source_loss"},
        "snapshot": {"commands", "source_loss"},
        "redump": {"commands", "snapshot"},
        "epochs": {"commands", "redump", "snapshot"},
        "tables": {"commands", "epochs"},
        "monitors": {"commands", "source_loss", "tables"},
        "lifecycle": {"commands", "epochs", "monitors", "redump", "snapshot", "source_loss", "tables"},
    },
    "capture": {
        "files": set(),
        "pacing": set(),
        "spill": set(),
        "write_faults": set(),
        "batches": set(),
        "landing": {"files"},
        "binlog": {"reports"},
        "projection": {"binlog"},
        "chunk": {
            "batches",
            "binlog",
            "files",
            "landing",
            "pacing",
            "projection",
            "reader_session",
            "reports",
            "spill",
            "write_faults",
        },
    },
    "destination": {
        "fence": set(),
        "place_names": set(),
        "destination_protocol": {"fence"},
        "capabilities": {"destination_protocol"},
        **{name: set() for name in ("merge_schedule", "sink_pace", "staged_rows", "iceberg")},
        "delta": {"capabilities", "destination_protocol", "fence", "iceberg", "place_names"},
        "staged_landing": {"place_names"},
        "parquet": {"destination_protocol", "fence", "place_names", "staged_landing"},
        "kafka": {"destination_protocol", "fence", "staged_landing"},
        "database": {"destination_protocol", "fence", "staged_landing", "staged_rows"},
        "writer": {"destination_protocol", "fence", "place_names", "staged_landing", "staged_rows"},
        "registry": {"database", "delta", "destination_protocol", "kafka", "parquet", "writer"},
        "agreement": {"destination_protocol", "fence"},
        "table_progress": {"capabilities", "destination_protocol", "merge_schedule"},
        "epoch_retention": {"table_progress"},
        "read_back": {"destination_protocol"},
        "maintenance_schedule": {"capabilities", "table_progress"},
        "published_tables": {"capabilities", "destination_protocol", "table_progress"},
        "change_log_looks": {"published_tables"},
        "epoch_replay": {"capabilities", "destination_protocol", "published_tables", "table_progress"},
        "sink_opening": {
            "capabilities",
            "agreement",
            "destination_protocol",
            "epoch_replay",
            "fence",
            "published_tables",
            "read_back",
            "table_progress",
        },
        "further_sink": {
            "destination_protocol",
            "epoch_replay",
            "epoch_retention",
            "freshness",
            "read_back",
            "sink_opening",
            "sink_pace",
            "table_progress",
        },
        "publisher": {
            "capabilities",
            "change_log_looks",
            "destination_protocol",
            "epoch_replay",
            "epoch_retention",
            "freshness",
            "further_sink",
            "maintenance_schedule",
            "published_tables",
            "table_progress",
        },
    },
}
"""A room within a room, and what it imports of the others there. What is not named here stands above all of them."""
KINDS = tuple(f"engine.destination.{kind}" for kind in ("database", "delta", "kafka", "parquet"))
LOOK_UPS = {
    "engine/status": 10,
    "engine/journal": 20,
    "engine/watch": 10,
    "engine/history": 67,
    "engine/alerting": 7,
    "engine/audit": 6,
    "engine/destination": 95,
    "engine/ledger": 100,
    "engine/run": 33,
    "engine/verify": 20,
    "app": 238,
}
"""How often a room may look up a name in a dictionary. Lower a number when its room needs fewer; what passes between
rooms is a dataclass, and its JSON is read where it enters (`engine.base.json_records`)."""


SAME_IN_DESTINATIONS = {"destination", "landing", "table"}
"""Modules that every kind of destination has, if it needs them."""
MOST_MODULES = 31
BUILDERS = {
    "engine/run/lifecycle/epoch_assembly.py": 39,  # the one place that builds a coordinator and its monitors
    "engine/verify/verifier.py": 35,
    "engine/cli/pipeline.py": 35,
}
"""How many of our modules a module may import, and those that import more."""
MOST_METHODS = 19
LARGE_CLASSES = {
    "engine/alerting/alerts.py:ActiveAlerts": 39,  # a method for each event that raises or clears an alert
    "engine/capture/binlog/binlog_range.py:BinlogRange": 24,  # one pass; its steps share the mapped tables
    "engine/capture/binlog/transaction_outcomes.py:TransactionOutcomes": 24,  # one scan of open transactions
    "engine/destination/delta/lake_table.py:LakeTable": 27,  # all that is done with one Delta table
    "engine/destination/delta/log/delta_log.py:DeltaLog": 20,  # all that is done with one log
    "engine/destination/delta/merge/mirror_files.py:MirrorFiles": 35,  # one merge; its steps share the files
    "engine/destination/delta/table_pair.py:TablePair": 24,  # what is asked of both of its tables
    "engine/destination/publisher.py:Publisher": 22,  # what the coordinator asks, and its thread
    "engine/run/snapshot/scheduler.py:SnapshotScheduler": 24,  # what the coordinator asks, and its readers
    "engine/run/snapshot/table_copy.py:TableCopy": 27,  # a method for each transition of a chunk
    "engine/spec/sink_settings.py:Sink": 21,  # a validator for each rule of its keys
    "engine/verify/verifier.py:Verifier": 20,  # one comparison, whose steps share the connection
}
"""How many methods a class may have, and those that have more, with the reason: none may grow."""
WORLD = {"socket", "pymysql", "pathlib", "os", "time", "threading"}
"""What a pure module imports nothing of."""
SET_LATER = {"activity", "_activity"}
"""What others set attributes of: the heartbeat's record, whose fields have one writer each."""


def files(folder: str) -> list[Path]:
    """The Python files below a folder of the repository."""
    return sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """The full names of what a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    """The room that a file stands in."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "app":
        return "app"
    return "base" if parts[1] == "__init__" else parts[1]


def rooms_entered(path: Path) -> set[str]:
    """The rooms of the engine that a file imports from, without its own."""
    names = [name.split(".") for name in imported(path)]
    return {name[1] for name in names if name[0] == "engine" and len(name) > 1} - {"__version__", room_of(path)}


@pytest.mark.parametrize("path", [*files("engine"), *files("app")], ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    """Each room imports only those that `ROOMS` allows, and the base none."""
    assert rooms_entered(path) <= ROOMS[room_of(path)] | {"base"}


def test_no_module_is_loose() -> None:
    """Every module of the engine stands in a room."""
    assert {path.stem for path in (ROOT / "engine").glob("*.py")} == {"__init__", "__main__"}


def test_only_the_registry_knows_the_kinds_of_destinations() -> None:
    """All others ask by protocols: `destination_protocol`, `capabilities` and `capture.landing`."""
    known = {
        path.relative_to(ROOT / "engine").as_posix()
        for path in files("engine")
        if any(name.startswith(KINDS) for name in imported(path))
    }
    outside = {path for path in known if not path.startswith(tuple(f"{kind[7:].replace('.', '/')}/" for kind in KINDS))}
    assert outside == {"destination/registry.py"}


@pytest.mark.parametrize(("room", "inner"), [(room, inner) for room, found in INNER.items() for inner in found])
def test_imports_follow_the_arrows_within_a_room(room: str, inner: str) -> None:
    """The parts of a room have an order too."""
    place = ROOT / "engine" / room / inner
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]:
        names = [name.split(".") for name in imported(path)]
        entered = {name[2] for name in names if name[:2] == ["engine", room] and len(name) > 2} - {inner}
        assert entered <= INNER[room][inner], path


@pytest.mark.parametrize("path", files("engine"), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_imports_too_many(path: Path) -> None:
    """One that knows half the house is where every change ends up."""
    modules = {
        node.module
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("engine.")
    }
    assert len(modules) <= BUILDERS.get(path.relative_to(ROOT).as_posix(), MOST_MODULES)


@pytest.mark.parametrize("path", files("engine"), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_class_has_too_many_methods(path: Path) -> None:
    """It would have several jobs."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(part, ast.FunctionDef) for part in node.body)
            name = f"{path.relative_to(ROOT).as_posix()}:{node.name}"
            assert methods <= LARGE_CLASSES.get(name, MOST_METHODS), name


@pytest.mark.parametrize("room", ["commands", "epochs", "lifecycle", "source_loss"])
def test_nothing_is_set_on_an_object_after_its_constructor(room: str) -> None:
    """The runner hands each component what it needs once. Local variables and records of one module are exempt."""
    late = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files(f"engine/run/{room}")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) != "self"
        if ast.unparse(node.value).removeprefix("self.") not in SET_LATER | {"late", "forwarded"}
    ]
    assert not late


@pytest.mark.parametrize("path", files("engine"), ids=lambda p: str(p.relative_to(ROOT)))
def test_spark_is_in_one_room(path: Path) -> None:
    """Only `spark` imports pyspark, only its destination Delta; history, Explore and databases import DuckDB."""
    homes = {"pyspark": {"engine/spark"}, "deltalake": {"engine/destination/delta"}}
    homes |= {"duckdb": {"engine/history", "engine/explore", "engine/destination/database"}, "streamlit": set()}
    homes |= {"prometheus_client": {"engine/status/metrics", "engine/status/exporter"}}
    here = path.relative_to(ROOT).with_suffix("").as_posix()
    for name in imported(path):
        package = name.split(".")[0]
        assert package != "app", path
        if package in homes:
            assert any(here == home or here.startswith(f"{home}/") for home in homes[package]), (
                f"{here} imports {package}"
            )


def wrong_reads(code: str) -> list[str]:
    """The calls in a file by which deltalake reads a table with deletion vectors wrongly, or refuses it.

    `count` is `DeltaTable`'s if it has no arguments: that of texts, lists and Arrow has one.
    """
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr in WRONG_READERS:
            found.append(node.attr)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "DeltaTable.count":
            found.append("count")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "count":
            found += [] if node.args or node.keywords else ["count"]
    return found


def test_deltalake_reads_no_table_with_deletion_vectors_wrongly() -> None:
    """Only `engine.destination` and QueryBuilder know deletion vectors."""
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in [*files("engine"), *files("app")]
        for name in wrong_reads(path.read_text(encoding="utf-8"))
    }
    assert found == RIGHT_READS


@pytest.mark.parametrize(
    "code",
    [
        "n = DeltaTable(path).count()",
        "n = self._load(folder).count()",
        "numbers = map(DeltaTable.count, tables)",
        "rows = delta.to_pyarrow_table(columns=['id'])",
        "read = delta.to_pyarrow_dataset",
        "def f():\n    return DeltaTable(path).to_pandas()",
    ],
)
def test_a_wrong_read_is_found(code: str) -> None:
    """However the table is reached."""
    assert wrong_reads(code)
    assert not wrong_reads("text.count('a') + mirror.count(condition=None) + parts[0].count(None)")


def test_decoders_and_rules_touch_no_socket() -> None:
    """Decoding, planning rules, backfill and emission are pure: bytes and batches in, batches out."""
    pure = [
        *files("engine/decode"),
        *(ROOT / f"engine/plan/{n}.py" for n in ("chunks", "coverage", "keys", "places", "strategy")),
        *(
            ROOT / f"engine/capture/{n}.py"
            for n in ("chunk/backfill", "binlog/emission", "binlog/row_changes", "binlog/binlog_range")
        ),
    ]
    for path in pure:
        wrong = {name.split(".")[0] for name in imported(path)} & WORLD
        assert not wrong, path


@pytest.mark.parametrize("folder", ["engine", "app", "tests"])
def test_no_file_is_too_long(folder: str) -> None:
    """At most 500 lines."""
    long = {
        str(p.relative_to(ROOT)): n
        for p in files(folder)
        if (n := len(p.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert not long


def targets(node: ast.Assign) -> list[ast.expr]:
    """What a statement such as `a = b = 0` or `a, b = 0, 1` assigns; `a, b = found` takes one value apart."""
    first = node.targets[0]
    pairs = isinstance(first, ast.Tuple) and isinstance(node.value, ast.Tuple)
    return first.elts if isinstance(first, ast.Tuple) and pairs else node.targets


@pytest.mark.parametrize("folder", ["engine", "app"])
def test_each_attribute_is_assigned_on_a_line_of_its_own(folder: str) -> None:
    """Lines of several are hard to read, and hide how much an object knows."""
    several = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files(folder)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign)
        if sum(isinstance(target, ast.Attribute) for target in targets(node)) > 1
    ]
    assert not several


def test_the_names_of_the_added_columns_have_one_owner() -> None:
    """`decode.schema`, but for texts of SQL; the destinations still write them."""
    written = {
        path.relative_to(ROOT).as_posix()
        for path in files("engine")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"_tm_\w+", node.value)
    }
    assert {path for path in written if not path.startswith("engine/destination/")} == {"engine/decode/schema.py"}


def look_ups(path: Path) -> int:
    """How often a file reads `found["name"]` or `found.get("name")`."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    keys = [node.slice for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    keys += [call.args[0] for call in calls if ast.unparse(call.func).endswith(".get") and call.args]
    return sum(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys)


@pytest.mark.parametrize("room", LOOK_UPS)
def test_fields_are_not_looked_up_by_name(room: str) -> None:
    """A misspelt name in a dictionary is found by a user, one of an attribute by mypy."""
    found = {str(path.relative_to(ROOT)): number for path in files(room) if (number := look_ups(path))}
    assert sum(found.values()) <= LOOK_UPS[room], found


def test_look_ups_are_counted(tmp_path: Path) -> None:
    """Those of names, and not those of numbers or of what is assigned."""
    code = tmp_path / "code.py"
    code.write_text("a['x']['y']; a.get('z', 1); a[0]; a['x'] = 1; a.get(key); a.get(); a[name]")
    assert look_ups(code) == 3


def test_every_module_says_what_it_is_for() -> None:
    """In the first line of its docstring."""
    for path in files("engine"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


@pytest.mark.parametrize("folder", ["engine", "app"])
def test_no_module_name_stands_twice(folder: str) -> None:
    """A name leads to one file. Rooms of destinations are alike: who knows one finds the way in all."""
    alike = {path for path in files("engine/destination") if path.stem in SAME_IN_DESTINATIONS}
    names = Counter(path.stem for path in files(folder) if not path.stem.startswith("__") and path not in alike)
    assert not {name for name, times in names.items() if times > 1}


def test_no_import_circle() -> None:
    """Whatever is imported inside functions counts too."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files("engine")
    }
    after = {name: {n for n in imported(path) if n in modules and n != name} for name, path in modules.items()}
    after = {name: {m.rpartition(".")[0] if m not in modules else m for m in found} for name, found in after.items()}
    assert list(TopologicalSorter(after).static_order())
