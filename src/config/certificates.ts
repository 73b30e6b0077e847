/** Ends of the certificates that a configuration names: those shown to clients, operators, backends and Redis. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { namedFiles } from './files.ts'
import { formatPath, problem, type PathProblem } from './problems.ts'
import type { Group } from './tree.ts'

export interface CertificateEnd {
  /** The setting that names its file, such as `server.tls.cert`. */
  readonly setting: string
  /** Unix time at which the certificate ends; for a chain, its earliest end. */
  readonly endsAtMs: number
}

/** A warning is given this long before the end of a certificate: enough for a person to renew it. */
const ENDING_SOON_MS = 14 * 24 * 60 * 60 * 1000

const certificates = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** A file that cannot be read, or holds no certificate, is left out: the start and a reload refuse it. */
export const certificateEnds = (tree: Group): CertificateEnd[] =>
  namedFiles(tree)
    .filter(({ path }) => path.at(-1) === 'cert')
    .flatMap(({ path, file }) => {
      try {
        const chain = readFileSync(file, 'utf8').match(certificates) ?? []
        const ends = chain.map((pem) => Date.parse(new X509Certificate(pem).validTo))
        return ends.length === 0 ? [] : [{ setting: formatPath(path), endsAtMs: Math.min(...ends) }]
      } catch {
        return []
      }
    })

/** Returns undefined while the end is far. */
export function describeEnd(endsAtMs: number, nowMs: number): string | undefined {
  const on = new Date(endsAtMs).toISOString().slice(0, 16).replace('T', ' ')
  if (endsAtMs <= nowMs) return `expired ${on}Z`
  return endsAtMs - nowMs <= ENDING_SOON_MS ? `expires ${on}Z` : undefined
}

export const certificateWarnings = (
  ends: readonly CertificateEnd[],
  nowMs: number,
): PathProblem[] =>
  ends.flatMap(({ setting, endsAtMs }) => {
    const end = describeEnd(endsAtMs, nowMs)
    if (end === undefined) return []
    return [problem(setting.split('.'), `names a certificate that ${end}; renew it, then reload`)]
  })
