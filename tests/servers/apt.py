"""Fetch a Debian package with its libraries into a folder of its own, without touching the system.

Debian stable has no MySQL and an older MariaDB; the unstable suite has the newest of both. Installing from it would
pull a newer C library into the system, so apt gets its own state, lists and cache and an empty ``status`` file
("nothing is installed"): it then downloads the package with everything below it, the C library included, and ``dpkg-deb
-x`` unpacks all of it under one prefix. Where to download from and which key to trust come from the machine's own apt
sources: only the suite is replaced.
"""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

APT_FOLDER = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")
REQUIRED_TOOLS = ("apt-get", "dpkg-deb")


class CannotFetchError(Exception):
    """The package cannot be fetched on this machine; the message says why and what to do instead."""


@dataclass(frozen=True)
class Source:
    """One apt source: where (``uri``), which suites and parts, and the keyring that signs it, if one is named."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None

    def with_suite(self, suite: str) -> str:
        """This source as a deb822 stanza for another suite."""
        lines = ["Types: deb", f"URIs: {self.uri}", f"Suites: {suite}", "Components: main"]
        if self.signed_by:
            lines.append(f"Signed-By: {self.signed_by}")
        return "\n".join(lines) + "\n"


def parse_deb822(text: str) -> list[Source]:
    """Sources of a ``.sources`` file (sources.list(5), DEB822-STYLE FORMAT); embedded keys are kept as they are."""
    sources = []
    for stanza in text.split("\n\n"):
        fields: dict[str, str] = {}
        last = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in " \t" and last:
                fields[last] += "\n" + line
            elif ":" in line:
                last, _, value = line.partition(":")
                last = last.lower()
                fields[last] = value.strip()
        if fields.get("enabled", "yes").lower() in {"no", "false"} or "deb" not in fields.get("types", "").split():
            continue
        suites, components = tuple(fields.get("suites", "").split()), tuple(fields.get("components", "").split())
        sources += [Source(uri, suites, components, fields.get("signed-by")) for uri in fields.get("uris", "").split()]
    return sources


def parse_one_line(text: str) -> list[Source]:
    """Sources of a ``.list`` file (sources.list(5), ONE-LINE-STYLE FORMAT)."""
    sources = []
    for line in text.splitlines():
        kind, _, rest = line.partition("#")[0].strip().partition(" ")
        if kind != "deb":
            continue
        options, rest = "", rest.strip()
        if rest.startswith("["):
            options, _, rest = rest[1:].partition("]")
        signed_by = next((o.partition("=")[2] for o in options.split() if o.startswith("signed-by=")), None)
        match rest.split():
            case [uri, suite, *components]:
                sources.append(Source(uri, (suite,), tuple(components), signed_by))
    return sources


def debian_source() -> Source:
    """The machine's own source for the release it runs: the one whose mirror also carries the unstable suite."""
    codename = _os_release().get("VERSION_CODENAME", "")
    wanted = {codename, "stable", "oldstable", "testing", "unstable", "sid"} - {""}
    sources: list[Source] = []
    for path in sorted(APT_FOLDER.glob("sources.list.d/*.sources")):
        sources += parse_deb822(path.read_text())
    for path in [APT_FOLDER / "sources.list", *sorted(APT_FOLDER.glob("sources.list.d/*.list"))]:
        if path.exists():
            sources += parse_one_line(path.read_text())
    for source in sources:
        if wanted & set(source.suites) and "main" in source.components:
            return source
    raise CannotFetchError(
        f"no apt source of this machine serves Debian's {codename or 'stable'} suite with its main component"
    )


def fetch(package: str, suite: str, prefix: Path, alone: Sequence[str] = ()) -> None:
    """Download `package` of `suite` with its dependencies and unpack everything into a new `prefix`.

    alone: further packages to unpack there, without their dependencies.
    """
    missing = [tool for tool in REQUIRED_TOOLS if shutil.which(tool) is None]
    if missing or _os_release().get("ID") != "debian":
        raise CannotFetchError(f"only a Debian machine can fetch {package} from Debian's {suite} suite")
    work = prefix.with_name(prefix.name + ".apt")
    unpacked = prefix.with_name(prefix.name + ".new")
    for folder in (work, unpacked):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        options = _private_configuration(work, debian_source().with_suite(suite))
        _run(["apt-get", *options, "update"])
        _run(["apt-get", *options, "install", "--download-only", "--yes", "--no-install-recommends", package])
        archives = work / "cache/archives"
        if alone:
            _run(["apt-get", *options, "download", *alone], archives)
        for archive in sorted(archives.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(unpacked)])
        shutil.rmtree(prefix, ignore_errors=True)
        unpacked.rename(prefix)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(unpacked, ignore_errors=True)


def _private_configuration(work: Path, stanza: str) -> list[str]:
    for folder in ("sources", "state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "sources/private.sources").write_text(stanza)
    (work / "status").touch()
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": work / "sources",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": work / "state",
        "Dir::State::Status": work / "status",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",  # the cache lies in a home folder that apt's own user may not enter
        "APT::Update::Post-Invoke-Success": "",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Debug::NoLocking": "1",  # everything is private and our own lock is held; root is not needed
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=folder)
    if done.returncode != 0:
        raise CannotFetchError(f"`{command[0]} … {command[-1]}` failed:\n{(done.stderr or done.stdout).strip()}")


def _os_release() -> dict[str, str]:
    if not OS_RELEASE.exists():
        return {}
    pairs = (line.partition("=") for line in OS_RELEASE.read_text().splitlines() if "=" in line)
    return {name: value.strip('"') for name, _, value in pairs}
