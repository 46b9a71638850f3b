{{- define "rhumbline.labels" -}}
app.kubernetes.io/name: rhumbline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "rhumbline.selector" -}}
app.kubernetes.io/name: rhumbline
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "rhumbline.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}

{{/* host:port under which clients reach this pod. */}}
{{- define "rhumbline.address" -}}
{{- $service := printf "%s-%s" .root.Release.Name .component -}}
{{- if .root.Values.externalDomain -}}
$(POD_NAME).{{ .root.Values.externalDomain }}
{{- else -}}
$(POD_NAME).{{ $service }}.{{ .root.Release.Namespace }}.svc
{{- end -}}
{{- end }}

{{/* What all pods have: user, settings, certificates, spread. */}}
{{- define "rhumbline.pod" -}}
serviceAccountName: {{ .root.Release.Name }}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rhumbline.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: {{ if eq .component "bookie" }}DoNotSchedule{{ else }}ScheduleAnyway{{ end }}
    labelSelector: {matchLabels: {{ include "rhumbline.selector" . | fromYaml | toJson }}}
  {{- if ne .component "bookie" }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {{ include "rhumbline.selector" . | fromYaml | toJson }}}
  {{- end }}
{{- end }}

{{- define "rhumbline.container" -}}
image: {{ include "rhumbline.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- end }}

{{- define "rhumbline.mounts" -}}
- {name: settings, mountPath: /etc/rhumbline, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.tls.secretName }}
- {name: tls, mountPath: /etc/rhumbline-tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "rhumbline.volumes" -}}
- name: settings
  configMap: {name: {{ .Release.Name }}-settings}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- if .Values.tls.secretName }}
- name: tls
  secret: {secretName: {{ .Values.tls.secretName }}, defaultMode: 288}
{{- end }}
{{- end }}

{{/* Probes of the status server; with TLS they need no certificate. */}}
{{- define "rhumbline.probes" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (ne .root.Values.tls.secretName "") -}}
startupProbe:
  httpGet: {path: /livez, port: status, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /livez, port: status, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: status, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}
