/** Describes faults between this process and Redis: a word for the log, and what an operator has to mend. */

/**
 * Refusals that do not end by waiting, found by an error's code or a server's answer; the first match counts. what: fault and
 * remedy. word: where the text does not begin with it.
 */
const refusals: readonly (readonly [pattern: RegExp, what: string, word?: string])[] = [
  [/^WRONGPASS /, 'it knows no such user, or another password; correct username and password'],
  [/^NOAUTH /, 'it asks for a password; give one'],
  [
    // Answers of different versions to a script or command of a user without the right to it.
    /^NOPERM |ACL failure in script|can't run this command|no permissions/i,
    'its user lacks a right; grant all that config/gateway.yaml lists',
    'NOPERM',
  ],
  [/^DENIED /, 'it is in protected mode and serves its own host alone; give it a password'],
  [
    /^ERR (DB index|SELECT is not allowed)/,
    'it has no database of this number; correct db, or the path of the URL',
    'NO_DATABASE',
  ],
  [
    /^ERR This instance has cluster support disabled/,
    'it is no node of a cluster; give it as url',
    'NO_CLUSTER',
  ],
  [/^MOVED /, 'it is a node of a cluster; give it as cluster'],
  [/^NO_MASTER /, 'no master of this name is known; correct name'],
  [/^NO_TLS /, 'it does not speak TLS; use redis://, or its port for TLS'],
  [/^TLS_ONLY /, 'it speaks TLS; use rediss://, or tls: {}'],
  [/^CERT_HAS_EXPIRED /, 'its certificate has expired; renew it'],
  [/^CERT_NOT_YET_VALID /, 'its certificate is not valid yet; compare the clocks'],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID /,
    'its certificate is for another name; correct the host, or give that name as tls.serverName',
  ],
  [/^ERR_(SSL|TLS)_/, 'it refuses the TLS connection; correct tls.cert and tls.key'],
  [
    /^(\w*CERT|UNABLE_TO_|INVALID_|PATH_LENGTH_|HOSTNAME_)/,
    'no trusted authority has signed its certificate; give that authority as tls.ca',
  ],
]

/** Makes an error for a fault for which neither the client library nor Node.js has one. */
export const serverFault = (code: 'NO_MASTER' | 'NO_TLS' | 'TLS_ONLY'): Error =>
  Object.assign(new Error(code), { code })

/** A call had no answer in time, or a connection is given up as its peer is silent. */
const TIMED_OUT = 'Socket timeout'

export const timedOut = (): Error => new Error(TIMED_OUT)

const messageOf = (fault: unknown): string => (fault instanceof Error ? fault.message : '')

/** A key of the wrong type concerns that key alone; the server is well. */
export const isKeyFault = (fault: unknown): boolean => messageOf(fault).includes('WRONGTYPE')

export const isTimeout = (fault: unknown): boolean => messageOf(fault).startsWith(TIMED_OUT)

/** The host name could not be resolved; the resolver itself may be away. */
export const isUnresolved = (fault: unknown): boolean =>
  /\b(ENOTFOUND|EAI_AGAIN)\b/.test(messageOf(fault))

export const areSentinelsAway = (fault: unknown): boolean =>
  messageOf(fault).startsWith('All sentinels are unreachable')

/**
 * word: shows an operator where to look, such as ECONNREFUSED, WRONGPASS, READONLY or timeout. It contains no more of the
 * message, as servers quote what they were sent. what: fault and remedy of a refusal.
 */
export function describeFault(fault: unknown): { word: string; what: string | undefined } {
  if (isTimeout(fault)) return { word: 'timeout', what: undefined }
  const text = textOf(fault)
  const [, what, word = /^[A-Z0-9_]{2,64}(?= )/.exec(text)?.[0]] =
    refusals.find(([pattern]) => pattern.test(text)) ?? []
  return {
    word: word ?? (areSentinelsAway(fault) ? 'sentinels unreachable' : 'connection lost'),
    what,
  }
}

function textOf(fault: unknown): string {
  if (fault instanceof Error && 'code' in fault && typeof fault.code === 'string')
    return `${fault.code} `
  const message = messageOf(fault)
  return areSentinelsAway(fault) ? (message.split('Last error: ')[1] ?? '') : message
}
