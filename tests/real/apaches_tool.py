"""Apache's class of `kafka-reassign-partitions` in one Java process. Each command runs until it needs a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from lab.testbed.artifacts import TOOLS_VERSION, kafka_classpath
from lab.testbed.java import java_executable

CLASS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
EXITED = "Exit was called"


class Outcome(NamedTuple):
    """A command's end: 'usage' (printed on standard error), 'refused' (on standard output), 'version', or 'cluster'.

    `told` is the first line of its output. 'cluster': the command would ask the cluster now.
    """

    kind: str
    told: str = ""


class ApachesTool:
    """Does the same as its `main`, without a client. Where it would use one, Java throws; the command got that far.

    `Exit` throws instead of ending the process.
    """

    def __init__(self, gateway: JavaGateway) -> None:
        """Find the class, and take its output and its exits."""
        self._gateway, self._java = gateway, gateway.jvm.java
        tool = self._java.lang.Class.forName(CLASS)
        methods = {str(method.getName()): method for method in tool.getDeclaredMethods()}
        self._parse, self._act = methods["validateAndParseArgs"], methods["handleAction"]
        for method in (self._parse, self._act):
            method.setAccessible(True)
        self._errors = self._java.io.ByteArrayOutputStream()
        self._output = self._java.io.ByteArrayOutputStream()
        self._java.lang.System.setErr(self._java.io.PrintStream(self._errors))
        self._java.lang.System.setOut(self._java.io.PrintStream(self._output))
        gateway.jvm.org.apache.kafka.common.utils.Exit.setExitProcedure(self._throwing_exit())

    def _array(self, kind: Any, elements: Sequence[Any]) -> Any:
        made = self._gateway.new_array(kind, len(elements))
        for index, element in enumerate(elements):
            made[index] = element
        return made

    def _throwing_exit(self) -> Any:
        """An `Exit.Procedure` that throws, built of method handles: there may be no compiler."""
        java = self._java.lang
        handles = java.invoke.MethodHandles
        thrower = handles.throwException(java.Void.TYPE, java.Class.forName("java.lang.RuntimeException"))
        bound = thrower.bindTo(java.RuntimeException(EXITED))
        taken = self._array(java.Class, [java.Integer.TYPE, java.Class.forName("java.lang.String")])
        procedure = java.Class.forName("org.apache.kafka.common.utils.Exit$Procedure")
        return java.invoke.MethodHandleProxies.asInterfaceInstance(procedure, handles.dropArguments(bound, 0, taken))

    def _invoke(self, method: Any, *arguments: Any) -> Any:
        """Call a static method; raises what it raises."""
        try:
            return method.invoke(None, self._array(self._java.lang.Object, arguments))
        except Py4JJavaError as error:
            raise Thrown(error.java_exception.getCause()) from None

    def run(self, arguments: Sequence[str]) -> Outcome:
        """Carry a command line out."""
        self._errors.reset()
        self._output.reset()
        try:
            options = self._invoke(self._parse, self._array(self._java.lang.String, arguments))
        except Thrown as thrown:
            if str(thrown.error.getMessage()) != EXITED:
                # `main` does not catch these: Java prints them, and ends with 1.
                return Outcome("usage", str(thrown.error.getMessage()))
            told = str(self._errors.toString()).split("\n", 1)[0]
            return Outcome("usage", told) if told else Outcome("version")
        try:
            # `main` does this before it makes a client.
            for name in ("command-config", "bootstrap-server"):
                if options.options.has(name):
                    options.options.valueOf(name)
        except Py4JJavaError as error:
            return _refused(error.java_exception)
        try:
            self._invoke(self._act, None, options)
        except Thrown as thrown:
            if str(thrown.error.getClass().getName()) == "java.lang.NullPointerException":
                return Outcome("cluster")
            return _refused(thrown.error)
        raise AssertionError(f"it came to an end without a cluster: {arguments}")


class Thrown(Exception):
    """A Java method threw `error`."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


def _refused(error: Any) -> Outcome:
    return Outcome("refused", f"Error: {error.getMessage()}".split("\n", 1)[0])


@contextmanager
def apaches_tool() -> Iterator[ApachesTool]:
    """Start Java with Kafka's tools in it."""
    [py4j] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    jars = ":".join(map(str, kafka_classpath(TOOLS_VERSION)))
    port = launch_gateway(
        jarpath=str(py4j), classpath=jars, die_on_exit=True, java_path=str(java_executable()), javaopts=["-Xmx96m"]
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True, auto_field=True))
    try:
        yield ApachesTool(gateway)
    finally:
        gateway.shutdown()
