#!/usr/bin/env bash
# Makes this checkout ready to run: Python 3.11 or later, .venv with the locked dependencies, Java 17 or later.
# Run by ./test and ./demo; changes nothing if everything is there. Needs neither a terminal nor standard input.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
exec </dev/null

say() { printf '%s\n' "bootstrap: $*" >&2; }
fail() {
    say "$*"
    exit 2
}

is_debian_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Installs the first of the named packages that is available.
apt_install() {
    local package
    export DEBIAN_FRONTEND=noninteractive
    if ! apt-cache policy "$@" 2>/dev/null | grep -q 'Candidate: [^(]'; then
        say "asking Debian for its list of packages (apt-get update)"
        apt-get update -q >&2
    fi
    for package in "$@"; do
        if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then
            say "installing $package (apt-get install, for you are root on Debian)"
            apt-get install -y -q --no-install-recommends "$package" >&2
            return
        fi
    done
    return 1
}

# A name on PATH may be a shim without a Python behind it, so each candidate is run.
is_usable_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.14 python; do
        if [ -n "$candidate" ] && is_usable_python "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or later is missing (looked at \$PYTHON, python3, python3.11 to python3.14 on PATH)." \
        "Get it with 'apt-get install python3 python3-venv' (Debian 12, Ubuntu 24.04 or later)," \
        "'dnf install python3.12', 'brew install python@3.12', or set PYTHON to one."
}

java_major() { "$1" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1; }

find_java() {
    local candidate major
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null; then
            major=$(java_major "$candidate")
            [ "${major:-0}" -ge 17 ] && return
        fi
    done
    return 1
}

ensure_java() {
    find_java && return
    if is_debian_root && apt_install openjdk-17-jre-headless openjdk-21-jre-headless && find_java; then
        return
    fi
    fail "Java 17 or later is missing (looked at \$JAVA_HOME and PATH); ZooKeeper, Kafka and Spark run on it." \
        "Get it with 'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu)," \
        "'dnf install java-17-openjdk-headless' (Fedora, RHEL), 'brew install openjdk@17' (macOS)," \
        "or set JAVA_HOME to one."
}

make_venv() {
    local python=$1
    rm -rf .venv
    say "making .venv with $("$python" --version)"
    "$python" -m venv .venv >&2 && return
    # On Debian, venv and the bundled pip are in a separate package.
    if is_debian_root && apt_install python3-venv && rm -rf .venv && "$python" -m venv .venv >&2; then
        return
    fi
    rm -rf .venv
    fail "$python can't make a virtual environment. On Debian and Ubuntu: 'apt-get install python3-venv'."
}

# A digest of what the environment was made from. It has the path of the checkout, because scripts in .venv name it.
fingerprint() {
    { printf '%s\n' "$root"; cat requirements-build.lock requirements.lock pyproject.toml; } |
        .venv/bin/python -c 'import hashlib, sys; print(sys.version, hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

install() {
    .venv/bin/python -m pip install --no-input --disable-pip-version-check --no-deps "$@" >&2
}

ensure_venv() {
    local stamp=.venv/shunter-made-from python
    if ! is_usable_python .venv/bin/python; then
        python=$(find_python)
        make_venv "$python"
    fi
    if [ -f "$stamp" ] && [ "$(fingerprint)" = "$(cat "$stamp")" ]; then
        return
    fi
    rm -f "$stamp"
    say "installing the locked dependencies into .venv; the first time this fetches about 700 MB, most of it Spark"
    # The build tools are installed first and are locked too, so that no unlocked package is fetched to build others.
    # The lists are complete, so nothing is resolved: pip before 23.3 would look for a newer coverage[toml] than the
    # locked one.
    install --require-hashes -r requirements-build.lock
    install --require-hashes --no-build-isolation -r requirements.lock
    install --no-build-isolation --editable .
    .venv/bin/python -m pip check >&2
    fingerprint >"$stamp"
    say "ready"
}

# Two runs at once would overwrite each other's files. Without flock, the caller has to prevent that.
if command -v flock >/dev/null; then
    exec 9>"$root/.bootstrap.lock"
    flock -n 9 || { say "waiting for another bootstrap of this checkout"; flock 9; }
fi
ensure_java
ensure_venv
