{{- define "warmpool.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "warmpool.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "warmpool.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "warmpool.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "warmpool.selector" -}}
app.kubernetes.io/name: {{ include "warmpool.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "warmpool.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "warmpool.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "warmpool.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "warmpool.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "warmpool.workersNamespace" -}}
{{- default .Release.Namespace .Values.workers.namespace }}
{{- end }}

{{- /* The ConfigMap that owns the workers: they go with the release. */ -}}
{{- define "warmpool.owner" -}}
{{- printf "%s-workers" (include "warmpool.fullname" .) }}
{{- end }}

{{- define "warmpool.secret" -}}
{{- if .Values.secret.existing }}
{{- .Values.secret.existing }}
{{- else if .Values.secret.files }}
{{- include "warmpool.fullname" . }}
{{- end }}
{{- end }}

{{- define "warmpool.image" -}}
{{- $repository := required "image.repository: name the registry and the repository to which you pushed the daemon's image, such as registry.example/warmpool/daemon" .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The names under which clients call: of the Service, of the ingress and the route, and those given. */ -}}
{{- define "warmpool.hosts" -}}
{{- $service := include "warmpool.fullname" . }}
{{- $hosts := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) }}
{{- if .Values.ingress.enabled }}{{- $hosts = concat $hosts .Values.ingress.hosts }}{{- end }}
{{- if .Values.httpRoute.enabled }}{{- $hosts = concat $hosts .Values.httpRoute.hostnames }}{{- end }}
{{- concat $hosts .Values.allowedHosts | uniq | join "," }}
{{- end }}

{{- /* The port of the daemon, at which probes ask: its image's own, unless a setting names another. */ -}}
{{- define "warmpool.port" -}}
{{- $listen := get .Values.settings "server.listen" | default "0.0.0.0:4444" | toString }}
{{- $port := regexFind ":[0-9]+$" $listen | trimPrefix ":" | atoi }}
{{- if or (lt $port 1) (gt $port 65535) (regexMatch "^(127\\.|\\[::1\\])" $listen) }}
{{- fail (printf "settings: server.listen is %s, which nobody outside the Pod reaches: name another address and a port, such as 0.0.0.0:4444" $listen) }}
{{- end }}
{{- $port }}
{{- end }}

{{- /* How the daemon is asked. */ -}}
{{- define "warmpool.scheme" -}}
{{- if get .Values.settings "server.tls_cert" }}HTTPS{{- else }}HTTP{{- end }}
{{- end }}

{{- /* The text of a setting: numbers as they were written, lists with commas. */ -}}
{{- define "warmpool.text" -}}
{{- if kindIs "slice" . }}
{{- join "," . }}
{{- else if kindIs "float64" . }}
{{- if eq . (float64 (int64 .)) }}{{ int64 . }}{{- else }}{{ . }}{{- end }}
{{- else }}
{{- toString . }}
{{- end }}
{{- end }}

{{- /* The daemon's variables, by name: those of the chart, and the settings, which win. */ -}}
{{- define "warmpool.variables" -}}
{{- $variables := dict
  "WARMPOOL_KUBERNETES_ENABLED" "true"
  "WARMPOOL_KUBERNETES_NAMESPACE" (include "warmpool.workersNamespace" .)
  "WARMPOOL_KUBERNETES_OWNER" (include "warmpool.owner" .)
  "WARMPOOL_KUBERNETES_PULL_POLICY" .Values.workers.pullPolicy
  "WARMPOOL_KUBERNETES_SECCOMP_PROFILE" .Values.seccompProfile.name
  "WARMPOOL_SERVER_ALLOWED_HOSTS" (include "warmpool.hosts" .)
  "WARMPOOL_DRAIN_KEEP_SESSIONS" "true" }}
{{- range $engine, $image := .Values.workers.images }}
{{- if $image }}{{- $_ := set $variables (printf "WARMPOOL_WORKER_%s_IMAGE" (upper $engine)) $image }}{{- end }}
{{- end }}
{{- $secrets := list }}
{{- range .Values.imagePullSecrets }}{{- $secrets = append $secrets .name }}{{- end }}
{{- if $secrets }}{{- $_ := set $variables "WARMPOOL_KUBERNETES_IMAGE_PULL_SECRETS" (join "," $secrets) }}{{- end }}
{{- if .Values.publicUrl }}{{- $_ := set $variables "WARMPOOL_SERVER_PUBLIC_URL" .Values.publicUrl }}{{- end }}
{{- if .Values.trustedProxies }}{{- $_ := set $variables "WARMPOOL_SERVER_TRUSTED_PROXIES" (join "," .Values.trustedProxies) }}{{- end }}
{{- range $name, $value := .Values.settings }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $variables (printf "WARMPOOL_%s" ($name | replace "." "_" | upper)) (include "warmpool.text" $value) }}
{{- end }}
{{- end }}
{{- range $name := keys $variables | sortAlpha }}
- name: {{ $name }}
  value: {{ get $variables $name | quote }}
{{- end }}
{{- end }}
