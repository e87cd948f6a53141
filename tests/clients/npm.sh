# Installs Node and packages of npm. A script that tests clients reads this file with `source`.

has_node() { command -v node >/dev/null && [[ $(node --version | tr -dc '0-9.' | cut -d. -f1) -ge 22 ]]; }

# Installs Node from PyPI in folder $2 if there is none, and the packages of the lock file in folder $1 in folder $2.
install_npm_packages() {
    local from=$1 to=$2
    mkdir -p "$to"
    if ! has_node; then
        if [[ ! -x $to/node/bin/node ]]; then
            python3 -m venv "$to/node"
            "$to/node/bin/pip" install --quiet --disable-pip-version-check \
                --requirement "$(dirname "${BASH_SOURCE[0]}")/requirements/node.txt"
        fi
        export PATH=$to/node/bin:$PATH
    fi
    cmp --silent "$from/package-lock.json" "$to/installed.json" && return
    cp "$from/package.json" "$from/package-lock.json" "$to"
    (cd "$to" && npm ci --no-audit --no-fund --loglevel=error)
    cp "$from/package-lock.json" "$to/installed.json"
}
