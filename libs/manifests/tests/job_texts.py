"""Manifests of jobs, written short."""


def template(gpus: int = 1, spec: str = "", metadata: str = "") -> str:
    container = f"{{name: c, resources: {{limits: {{gpu: {gpus}}}}}}}"
    more = f", {spec}" if spec else ""
    return f"{{metadata: {{{metadata}}}, spec: {{containers: [{container}]{more}}}}}"


def manifest(api_version: str, kind: str, spec: str, metadata: str = "name: train") -> str:
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{{metadata}}}\nspec: {{{spec}}}\n"


def batch(spec: str = "", metadata: str = "name: train") -> str:
    written = f"template: {template()}" + (f", {spec}" if spec else "")
    return manifest("batch/v1", "Job", written, metadata)


RAY = (
    f"headGroupSpec: {{rayStartParams: {{}}, template: {template()}}}, workerGroupSpecs: ["
    f"{{groupName: small, replicas: 3, minReplicas: 1, maxReplicas: 9, template: {template(2)}}}, "
    f"{{groupName: hosts, replicas: 2, numOfHosts: 4, template: {template(2)}}}]"
)
ROLES = (
    f"ReplicaSpecs: {{Worker: {{replicas: 7, restartPolicy: OnFailure, template: {template(2)}}}, "
    f"Master: {{restartPolicy: Never, template: {template()}}}}}"
)
