package shunter.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/**
 * Puts Shunter's controller beside the brokers that Apache's own integration tests start.
 *
 * <p>Before the first broker of a test starts, {@link Controllers} starts `shunter controller` on the test's ZooKeeper and
 * waits until it has `/controller`, so that no broker becomes the controller. The controller ends together with the
 * test's ZooKeeper. KRaft variants of a test are aborted with either controller, because Shunter has none for KRaft.
 */
public final class ShunterAgent {
    private ShunterAgent() {}

    public static void premain(String arguments, Instrumentation instrumentation) {
        AgentBuilder builder = new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(AgentBuilder.RedefinitionStrategy.DISABLED)
            .type(named("kafka.server.QuorumTestHarness"))
            .transform((it, type, loader, module, domain) ->
                it.visit(Advice.to(KRaftAborted.class).on(named("newKRaftQuorum").and(takesArguments(1)))))
            .type(named("kafka.testkit.KafkaClusterTestKit$Builder"))
            .transform((it, type, loader, module, domain) ->
                it.visit(Advice.to(KRaftAborted.class).on(named("build"))));
        if ("shunter".equals(System.getProperty("shunter.tests.controller"))) {
            builder = builder
                .type(named("kafka.server.KafkaServer"))
                .transform((it, type, loader, module, domain) ->
                    it.visit(Advice.to(BrokerStarting.class).on(named("startup").and(takesArguments(0)))))
                .type(named("kafka.zk.EmbeddedZookeeper"))
                .transform((it, type, loader, module, domain) ->
                    it.visit(Advice.to(ZooKeeperEnding.class).on(named("shutdown").and(takesArguments(0)))))
                .type(named("kafka.integration.KafkaServerTestHarness"))
                .transform((it, type, loader, module, domain) -> it
                    .visit(Advice.to(TopicIdsAsked.class).on(named("getTopicIds")))
                    .visit(Advice.to(TopicNamesAsked.class).on(named("getTopicNames").and(takesArguments(0)))))
                .type(named("kafka.utils.TestUtils$"))
                .transform((it, type, loader, module, domain) -> it
                    .visit(Advice.to(ControllerIdAsked.class).on(named("waitUntilControllerElected")))
                    .visit(Advice.to(MetadataAwaited.class)
                        .on(named("waitUntilBrokerMetadataIsPropagated").and(takesArguments(2)))))
                .type(named("kafka.server.BaseRequestTest"))
                .transform((it, type, loader, module, domain) ->
                    it.visit(Advice.to(ControllerAsked.class).on(named("controllerSocketServer"))));
        }
        builder.installOn(instrumentation);
    }

    /** A KRaft cluster is about to be made. */
    public static final class KRaftAborted {
        private KRaftAborted() {}

        @Advice.OnMethodEnter
        public static void enter() {
            Controllers.abortKRaft();
        }
    }

    /** A broker is about to start. */
    public static final class BrokerStarting {
        private BrokerStarting() {}

        @Advice.OnMethodEnter
        public static void enter(@Advice.This Object server) {
            Controllers.ensure(server);
        }
    }

    /** A test asks for the server of the active controller, to send it requests. It gets Shunter's. */
    public static final class ControllerAsked {
        private ControllerAsked() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static Object enter(@Advice.This Object test) {
            return Controllers.socketServer(test);
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter Object ours,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object server) {
            if (ours != null) {
                server = ours;
            }
        }
    }

    /** A test asks which of its own brokers is the controller, to place a replica on it or to leave it running. */
    public static final class ControllerIdAsked {
        private ControllerIdAsked() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static Object enter(@Advice.Argument(0) Object client) {
            return Controllers.stableBroker(client);
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter Object ours,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object id) {
            if (ours != null) {
                id = ours;
            }
        }
    }

    /** A test waits until its brokers know each other and no other node. They know Shunter's node, too. */
    public static final class MetadataAwaited {
        private MetadataAwaited() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean enter(@Advice.Argument(0) Object brokers, @Advice.Argument(1) long timeoutMs) {
            return Controllers.awaitMetadata(brokers, timeoutMs);
        }
    }

    /** A test reads topic ids from the active controller's memory. It gets those of ZooKeeper. */
    public static final class TopicIdsAsked {
        private TopicIdsAsked() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static Object enter(@Advice.This Object harness) {
            return Controllers.topicIds(harness);
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter Object ours,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object ids) {
            if (ours != null) {
                ids = ours;
            }
        }
    }

    /** A test reads topic names by id from the active controller's memory. It gets those of ZooKeeper. */
    public static final class TopicNamesAsked {
        private TopicNamesAsked() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static Object enter(@Advice.This Object harness) {
            return Controllers.topicNames(harness);
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter Object ours,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object names) {
            if (ours != null) {
                names = ours;
            }
        }
    }

    /** A test's ZooKeeper is about to end. */
    public static final class ZooKeeperEnding {
        private ZooKeeperEnding() {}

        @Advice.OnMethodEnter
        public static void enter(@Advice.This Object zookeeper) {
            Controllers.end(zookeeper);
        }
    }
}
