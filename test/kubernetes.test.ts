/** Holds the manifests of deploy/kubernetes to each other, to their own configuration and to the gateway as it is. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseDocument } from 'yaml'
import { refuseDemoKeys } from '../src/cli/usable-config.ts'
import { parseConfigText } from '../src/config/clients/load.ts'

const root = join(import.meta.dirname, '..')
const folder = join(root, 'deploy/kubernetes')
/** Throws where the YAML is none, or says one thing twice. */
const read = (file: string): unknown => {
  const document = parseDocument(readFileSync(join(folder, file), 'utf8'))
  expect([...document.errors, ...document.warnings], file).toEqual([])
  return document.toJS()
}
/** What stands at the path, such as `spec.ports.0`; throws if nothing does. */
// What is read is what the caller expects: a manifest that differs fails the test.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
function at<What = unknown>(manifest: unknown, path: string): What {
  let value = manifest
  for (const name of path.split('.')) value = (value as Record<string, unknown> | undefined)?.[name]
  if (value === undefined) throw new Error(`nothing at ${path}`)
  return value as What
}

interface Variable {
  readonly name: string
  readonly valueFrom: { readonly secretKeyRef: { readonly name: string; readonly key: string } }
}
interface Probe {
  readonly periodSeconds: number
  readonly failureThreshold: number
  readonly timeoutSeconds?: number
}

const kustomization = read('kustomization.yaml')
const deployment = read('deployment.yaml')
const configMap = read('config.yaml')
const service = read('service.yaml')
const budget = read('disruption-budget.yaml')
const autoscaler = read('autoscaler.yaml')
const policy = read('network-policy.yaml')

const pod = at(deployment, 'spec.template.spec')
const container = at(pod, 'containers.0')
const variables = at<readonly Variable[]>(container, 'env')
const labels = at(deployment, 'spec.template.metadata.labels')
const probe = (kind: string) => at<Probe>(container, `${kind}Probe`)

const { 'gateway.yaml': text } = at<{ 'gateway.yaml': string }>(configMap, 'data')
const env = { REDIS_URL: 'rediss://redis.example:6379', ADMIN_TOKEN_SHA256: 'ab'.repeat(32) }
const config = parseConfigText(text, { file: 'gateway.yaml', env })

describe('deploy/kubernetes', () => {
  it('applies every manifest there is, and the image of this version', () => {
    const manifests = readdirSync(folder).filter((file) => file !== 'kustomization.yaml')
    expect(at<string[]>(kustomization, 'resources').toSorted()).toEqual(manifests.sort())
    const packageFile: unknown = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    expect(at(kustomization, 'images')).toMatchObject([
      { name: at(container, 'image'), newTag: at(packageFile, 'version') },
    ])
  })

  it('has a configuration that the gateway takes without a warning, with the variables of the pod', () => {
    expect(config.warnings).toEqual([])
    expect(refuseDemoKeys(config)).toBeUndefined()
    expect(variables.map(({ name }) => name)).toEqual(Object.keys(env))
    expect(() => parseConfigText(text, { file: 'gateway.yaml', env: {} })).toThrow('2 problems')
    // Made by the command that stands there.
    const made = readFileSync(join(folder, 'kustomization.yaml'), 'utf8')
    for (const { valueFrom } of variables) {
      expect(made).toContain(`create secret generic ${valueFrom.secretKeyRef.name} --from-literal=`)
      expect(made).toContain(` --from-literal=${valueFrom.secretKeyRef.key}=`)
    }
  })

  it('mounts that configuration where the command looks for it, so that a change of it arrives', () => {
    const [command = '', ...options] = at<string[]>(container, 'args')
    const help = spawnSync(process.execPath, [join(root, 'src/main.ts'), command, '--help'])
    expect(help.status).toBe(0)
    expect(options).toEqual(['--watch', '--config', '/etc/tollgate/gateway.yaml'])
    for (const option of ['--watch ', '--config <'])
      expect(help.stdout.toString()).toContain(`  ${option}`)
    const [name, mount] = ['config', at(container, 'volumeMounts.0')]
    expect(mount).toEqual({ name, mountPath: '/etc/tollgate', readOnly: true })
    const volume = { name, configMap: { name: at(configMap, 'metadata.name') } }
    expect(at(pod, 'volumes.0')).toEqual(volume)
  })

  it('listens where it is probed and called, and shows the admin listener to nobody else', () => {
    expect(at(container, 'ports')).toMatchObject([
      { name: 'http', containerPort: config.server.listen.port },
      { name: 'admin', containerPort: config.admin.listen.port },
    ])
    for (const { host } of [config.server.listen, config.admin.listen]) expect(host).toBe('0.0.0.0')
    const asked = { startup: '/healthz', readiness: '/readyz', liveness: '/healthz' }
    for (const [kind, path] of Object.entries(asked))
      expect(probe(kind)).toMatchObject({ httpGet: { path, port: 'admin' } })
    expect(at(service, 'spec.ports')).toMatchObject([{ targetPort: 'http' }])
    const allowed = at<{ from: object[]; ports: object[] }[]>(policy, 'spec.ingress')
    expect(allowed.map(({ ports }) => ports)).toEqual([[{ port: 'http' }], [{ port: 'admin' }]])
    for (const { from } of allowed) expect(from).toHaveLength(1)
  })

  it('leaves a pod the time to drain, and sends it nothing by then', () => {
    const { drainDelayMs, drainMs } = config.server.timeouts
    const graceMs = at<number>(pod, 'terminationGracePeriodSeconds') * 1_000
    expect(graceMs).toBeGreaterThan(drainDelayMs + drainMs + 5_000)
    const { periodSeconds, failureThreshold, timeoutSeconds = 1 } = probe('readiness')
    const seenMs = (periodSeconds * failureThreshold + timeoutSeconds) * 1_000
    expect(seenMs).toBeLessThan(drainDelayMs)
  })

  it('means the same pods everywhere, of which most stay', () => {
    for (const [manifest, path] of [
      [deployment, 'spec.selector.matchLabels'],
      [service, 'spec.selector'],
      [budget, 'spec.selector.matchLabels'],
      [policy, 'spec.podSelector.matchLabels'],
      [pod, 'topologySpreadConstraints.0.labelSelector.matchLabels'],
      [pod, 'topologySpreadConstraints.1.labelSelector.matchLabels'],
    ] as const)
      expect(at(manifest, path), path).toEqual(labels)
    expect(at(autoscaler, 'spec.scaleTargetRef')).toEqual({
      apiVersion: at(deployment, 'apiVersion'),
      kind: at(deployment, 'kind'),
      name: at(deployment, 'metadata.name'),
    })
    // Else each apply would undo what the autoscaler has done.
    expect(at(deployment, 'spec')).not.toHaveProperty('replicas')
    const least = at<number>(autoscaler, 'spec.minReplicas')
    expect(least - at<number>(budget, 'spec.maxUnavailable')).toBeGreaterThanOrEqual(2)
    expect(at(deployment, 'spec.strategy.rollingUpdate.maxUnavailable')).toBe(0)
  })

  it('runs as the user of the image, who can change nothing', () => {
    const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8')
    // Of the official images of Node.js it is 1000; by its name alone Kubernetes cannot tell that it is not root.
    expect(dockerfile).toMatch(/^USER node$/m)
    expect(at(pod, 'securityContext')).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 })
    expect(at(container, 'securityContext')).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    // Counts are in Redis: nothing else would be kept.
    expect(config.store.redis).toBeDefined()
  })
})
