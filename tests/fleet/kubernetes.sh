#!/usr/bin/env bash
# The manifests for Kubernetes keep to its schemas, of npm packages, with no field that the schemas do
# not have; so do the alarms as a rule of the Prometheus operator.  The program takes the file in them.
#
# Writes TAP.  `./dev test fleet` installs the packages in build/kubernetes.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/../system/cli.bash"

modules=$source_dir/build/kubernetes/node_modules
manifests=$source_dir/packaging/kubernetes
if [ ! -e "$modules/typescript" ]; then
	skip "the manifests" "the schemas are not installed"
	finish
fi
ln -s "$modules" node_modules
cat >check.mjs <<'END'
import fs from "node:fs";
import yaml from "js-yaml";

let types = "", n = 0, bad = 0;
for (const file of process.argv.slice(2))
	for (const d of yaml.loadAll(fs.readFileSync(file, "utf8"))) {
		const from = (d.apiVersion.startsWith("monitoring") ? "@kubernetes-models/prometheus-operator/" :
			"kubernetes-models/") + d.apiVersion;
		types += `import type {I${d.kind} as T${n}} from "${from}";\n` +
			`export const o${n}: T${n} = ${JSON.stringify(d, null, 1)};\n`;
		n++;
		try {
			new (await import(from))[d.kind](d).validate();
			console.log("valid", d.kind);
		} catch (e) {
			bad++;
			console.log("invalid", d.kind, e.message);
		}
	}
fs.writeFileSync("strict.ts", types);
process.exitCode = bad ? 1 : 0;
END

validate() { # FILE...; the schemas alone allow unknown fields, the types do not
	out=$(node check.mjs "$@" 2>&1 && node node_modules/typescript/lib/tsc.js --noEmit --strict \
		--skipLibCheck --target es2022 --module nodenext --moduleResolution nodenext strict.ts 2>&1)
	status=$? err=
}

validate "$manifests"/*.yaml
expect "the manifests keep to the schemas" 0 "out:valid Deployment" "out:valid PodDisruptionBudget" \
	"out:valid ConfigMap" "out:valid Service" "out:valid ServiceMonitor"
{
	printf 'apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: wherry}\nspec:\n'
	sed 's/^/  /' "$source_dir/packaging/prometheus/alerts.yaml"
} >rule.yaml
validate rule.yaml
expect "so do the alarms" 0 "out:valid PrometheusRule"
sed 's/replicas: 2/replicas: two/' "$manifests/wherry.yaml" >planted.yaml
validate planted.yaml
expect "a wrong type is noticed" 1 "out:replicas"
sed 's/minAvailable:/minAvailabel:/' "$manifests/wherry.yaml" >planted.yaml
validate planted.yaml
expect "an unknown field is noticed" 2 "out:minAvailabel"

mkdir secrets
echo a-token-of-24-characters >secrets/http-token
echo sesame >secrets/database-password
node -e '
const yaml = require("js-yaml"), docs = yaml.loadAll(require("fs").readFileSync(process.argv[1], "utf8"));
console.log(docs.find(d => d.kind == "ConfigMap").data["wherry.yaml"]);' "$manifests/wherry.yaml" |
	sed "s|/etc/wherry/secrets|$tmp/secrets|" >wherry.yaml
w check wherry.yaml
expect "the program takes the file of the ConfigMap" 0 "out:1 relay, fine"
finish
