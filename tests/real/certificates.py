"""An authority, brokers and a client with certificates, made by openssl and keytool while a test runs."""

from pathlib import Path

from lab.testbed.process import run_bounded

PASSWORD = "a-store-password"


class Certificates:
    """`authority.pem`, and for each name a key with its chain as `NAME.pem`."""

    def __init__(self, folder: Path) -> None:
        """Make the authority."""
        self.folder = folder
        self.authority = folder / "authority.pem"
        self._run(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority",
            "-keyout authority.key -out authority.pem",
        )

    def _run(self, *parts: str) -> None:
        command = " ".join(parts)
        done = run_bounded(["/usr/bin/env", "-C", str(self.folder), *command.split()], timeout_s=60)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def issue(self, name: str, *, password: str | None = None) -> Path:
        """A file with a certificate of this name for the loopback: its key, encrypted with the password, and chain."""
        protection = "-nodes" if password is None else f"-passout pass:{password}"
        self._run(f"openssl req -newkey rsa:2048 {protection} -subj /CN={name}", f"-keyout {name}.key -out {name}.csr")
        (self.folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        self._run(
            f"openssl x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial",
            f"-days 2 -extfile names -out {name}.crt",
        )
        whole = self.folder / f"{name}.pem"
        parts = [self.folder / f"{name}.key", self.folder / f"{name}.crt", self.authority]
        whole.write_text("".join(part.read_text() for part in parts))
        return whole

    def java_store(self, name: str, *, key_password: str) -> Path:
        """The key and chain of a name in a store of Java's own kind (JKS)."""
        self._run(
            f"openssl pkcs12 -export -in {name}.pem -passin pass:{key_password} -name {name}",
            f"-out {name}.first.p12 -passout pass:{PASSWORD}",
        )
        self._run(
            f"keytool -importkeystore -srckeystore {name}.first.p12 -srcstoretype PKCS12 -srcstorepass {PASSWORD}",
            f"-destkeystore {name}.jks -deststoretype JKS -deststorepass {PASSWORD} -destkeypass {PASSWORD}",
        )
        return self.folder / f"{name}.jks"

    def java_trust(self, name: str) -> Path:
        """A trust store of Java's own kind with the authority in it."""
        self._run(
            f"keytool -importcert -noprompt -alias authority -file authority.pem -keystore {name}.jks",
            f"-storetype JKS -storepass {PASSWORD}",
        )
        return self.folder / f"{name}.jks"

    def pkcs12(self, name: str, *, key_password: str) -> Path:
        """The key and chain of a name in a PKCS12 store, as Strimzi writes `user.p12`."""
        self._run(
            f"openssl pkcs12 -export -in {name}.pem -passin pass:{key_password} -name {name}",
            f"-out {name}.p12 -passout pass:{PASSWORD}",
        )
        return self.folder / f"{name}.p12"
