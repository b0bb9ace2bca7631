package config

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Keys of Dubbo that have no effect here, by the reason, which is told once for each. docs/rpc.md lists them.
var (
	idleApplication = map[string]string{
		"it is for those who look into Dubbo's tools":                                    "id owner organization architecture environment version",
		"log lines go to the program's logger":                                           "logger",
		"classes are not compiled":                                                       "compiler",
		"metadata is not published: the services of a port are listed by its reflection": "metadata-type metadata-service-port metadata-service-protocol publish-interface publish-instance",
		"the operator's page takes the place of QoS: --admin of the command":             "qos-enable qos.enable qos-host qos.host qos-port qos.port qos-accept-foreign-ip qos.accept.foreign.ip qos-check qos-anonymous-access-permission-level",
		"the time for a shutdown is that of the call of Shutdown, or of the command":     "shutwait",
		"the host of each protocol says so":                                              "hostname",
		"each service says its protocols":                                                "protocol",
		"it is for consumers":                                                            "register-consumer enable-file-cache enable-empty-protection check-serializable",
		"health is served by eddy.Health, grpc.health.v1.Health and the operator's page": "liveness-probe readiness-probe startup-probe",
		"values of Hessian are read without making classes of their names":               "serialize-check-status auto-trust-serialize-class trust-serialize-class-level",
	}
	idleProtocol = map[string]string{
		"the codec is the caller's": "serialization prefer-serialization codec charset",
		"there is one transport":    "transporter server client exchanger networker buffer",
		"there is no telnet":        "telnet prompter status",
		"idle-timeout closes what is silent, and clients send heartbeats": "heartbeat keep-alive",
		"pools are named by their port or service":                        "threadname",
		"the path of a service is its interface":                          "contextpath path",
		"it is for Java":                                                  "optimizer extension json-check-level",
		"all protocols are the default":                                   "default",
		"a port speaks what its name says":                                "ext-protocol preferred-protocol",
	}
	idleRegistry = map[string]string{
		"a registry that is down stops nothing": "check timeout wait",
		"the registry's client is the engine's": "transporter server client cluster file session version logger secure",
		"it is for consumers":                   "subscribe preferred accepts weight enable-empty-protection",
		"all of a service is registered":        "simplified extra-keys dynamic",
		"it is the registry only":               "use-as-config-center use-as-metadata-center default",
	}
	idleService = map[string]string{
		"the program gives the implementation of each key":        "ref bean class",
		"the path of a service is its interface":                  "path",
		"services are exported when the server listens":           "delay",
		"it is for those who look into Dubbo's tools":             "document owner layer deprecated provider tag",
		"registrations end with the server":                       "dynamic",
		"it is for consumers":                                     "cluster loadbalance retries async actives connections callbacks mock stub local sent onconnect ondisconnect merger cache warmup lazy",
		"a server has one weight, ServerOptions.Discovery.Weight": "weight",
		"interceptors of the program do that":                     "filter listener accesslog validation generic",
		"the codec is the caller's":                               "serialization prefer-serialization proxy",
		"arguments have no settings":                              "method argument",
	}
	idleMethod = map[string]string{
		"it is for consumers":                         "loadbalance retries async actives sent cache mock merger sticky return oninvoke onreturn onthrow",
		"interceptors of the program do that":         "validation",
		"it is for those who look into Dubbo's tools": "deprecated service service-id",
	}
	idleProvider = merged(idleProtocol, idleService, map[string]string{"protocols and services say so": "port protocol registry interface"})

	idleCenter = map[string]string{
		"it is for Spring": "include-spring-env",
		"the whole text is read, once, when the program starts": "key app-name app-key cluster",
	}
	idleReport = map[string]string{
		"there is one metadata report, which is that of the registry's servers": "id group timeout check cluster namespace username password registry",
		"it is written with the registration":                                   "retry-times retry-period cycle-report sync-report file",
		"addresses of the application say what they serve, and no more":         "report-metadata report-definition report-consumer-definition",
	}

	idleSections = map[string]string{
		"consumer": "it is for consumers", "consumers": "it is for consumers", "reference": "it is for consumers", "references": "it is for consumers",
		"module": "it is for those who look into Dubbo's tools", "modules": "it is for those who look into Dubbo's tools",
		"monitor": "numbers are those of /metrics", "metrics": "numbers are those of /metrics", "tracing": "traces are those of the module otel",
		"scan": "services are given by the program", "annotation": "services are given by the program", "config": "the configuration is this file",
		"cloud": "it is for Spring", "labels": "it is for Dubbo's routing", "qos": "the operator's page takes the place of QoS: --admin of the command",
	}
	refusedSections = map[string]string{
		"ssl":  "TLS is not read from the file: set PortOptions.Front, or --tls-cert and --tls-key of the command",
		"pool": "write dubbo.pools.NAME.threads", "service": "write dubbo.services.NAME.interface and the others below a name",
	}

	springRoots = []string{"spring", "server", "logging", "management", "info"}
)

// idle makes fields of keys without effect.
func idle(keys map[string]string) (list []field) {
	for _, why := range slices.Sorted(maps.Keys(keys)) {
		for name := range strings.FieldsSeq(keys[why]) {
			list = append(list, field{name: name, idle: why})
		}
	}
	return list
}

// merged returns the keys of all, each once.
func merged(all ...map[string]string) map[string]string {
	sum, seen := map[string]string{}, map[string]bool{}
	for _, keys := range all {
		for _, f := range idle(keys) {
			if !seen[f.name] {
				seen[f.name] = true
				sum[f.idle] += " " + f.name
			}
		}
	}
	return sum
}

// refused returns the parser of a key that must not be ignored.
func refused(r *reader, why string) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) { r.fail(n, key, "", "is refused: %s", why) }
}

// only returns the parser of a switch that has one position here.
func only(r *reader, position bool, why string) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		value := position
		if boolean(r, &value)(n, key); value != position {
			r.fail(n, key, shown(n), "is refused: %s", why)
		}
	}
}

// sectionNames are the keys below dubbo that have an effect.
func sectionNames() []string {
	list := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return refusedSections[k] != "" })
	return append(list, slices.Sorted(maps.Keys(plural))...)
}
