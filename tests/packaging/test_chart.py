"""The chart of packaging/helm, rendered by helm and judged by kubeconform; its policy and flags are taken by Shunter.

Without helm on the PATH these tests are skipped: `go install helm.sh/helm/v3/cmd/helm@latest`. Without kubeconform
(`go install github.com/yannh/kubeconform/cmd/kubeconform@latest`), or its schemas, only the last part is.
"""

import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.cli.main import main

ROOT = Path(__file__).parents[2]
CHART = ROOT / "packaging" / "helm" / "shunter"
ALL = ("-f", str(CHART / "ci" / "all-values.yaml"))
FEW = ("--set", "tokensSecret=shunter-tokens")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("NOT TESTED: no helm on the PATH, so the chart was not rendered")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def rendered(*values: str) -> str:
    done = helm("template", "prod", str(CHART), "--namespace", "kafka", *values)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("values", [FEW, ALL], ids=["few", "all"])
def test_kubernetes_would_take_it(values: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "rendered.yaml").write_text(rendered(*values))
    assert helm("lint", str(CHART), *values).returncode == 0
    program = shutil.which("kubeconform")
    if program is None:
        pytest.skip("NOT TESTED: no kubeconform on the PATH, so Kubernetes' schemas were not asked")
    schemas = os.environ.get("SHUNTER_KUBERNETES_SCHEMAS", "default")
    command = [program, "-strict", "-schema-location", schemas, "-skip", "ServiceMonitor", tmp_path / "rendered.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "failed downloading schema" in done.stdout:
        pytest.skip("NOT TESTED: kubeconform can't fetch Kubernetes' schemas; SHUNTER_KUBERNETES_SCHEMAS names others")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", [FEW, ALL], ids=["few", "all"])
def test_the_pod_has_no_rights_and_asks_the_probes(values: tuple[str, ...]) -> None:
    text = rendered(*values)
    for line in (
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "capabilities: {drop: [ALL]}",
        "automountServiceAccountToken: false",
        "seccompProfile: {type: RuntimeDefault}",
    ):
        assert line in text
    assert "privileged" not in text
    assert set(re.findall(r"httpGet: {path: ([^,]+),", text)) == {"/health", "/ready"}
    assert "subPath:" not in text, "a file that is mounted by itself never changes, so no changed policy would be read"


@pytest.mark.parametrize("values", [FEW, ALL], ids=["few", "all"])
def test_shunter_takes_its_policy_and_flags(values: tuple[str, ...], tmp_path: Path) -> None:
    text = rendered(*values)
    found = re.search(r"  policy\.toml: \|\n((?:    .*\n)+)", text)
    flags = re.search(r"          args:\n((?:            - .*\n)+)", text)
    assert found is not None
    assert flags is not None
    policy = tmp_path / "policy.toml"
    policy.write_text(textwrap.dedent(found[1]))
    mounted = "/etc/shunter/policy/policy.toml"
    arguments = [line.strip().removeprefix("- ").replace(mounted, str(policy)) for line in flags[1].splitlines()]
    done = CliRunner().invoke(main, [*arguments, "--check"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((), "tokensSecret: name a Secret with tokens.json"),
        ((*FEW, "--set", "replicas=2,policy=x"), "give each cluster of the policy a journal-topic"),
        ((*FEW, "--set", "ingress.enabled=true"), "an ingress needs at least one"),
        ((*FEW, "--set", "serviceMonitor.enabled=true"), "Prometheus needs a token of the role read"),
    ],
)
def test_what_can_t_work_is_refused(values: tuple[str, ...], told: str) -> None:
    done = helm("template", "prod", str(CHART), *values)
    assert done.returncode == 1
    assert told in done.stderr
