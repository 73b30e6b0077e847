/** What goes wrong between this process and Redis, and the bound of every call. */

class CallTimeout extends Error {}

/** What the client library has no error for. */
export class ServerFault extends Error {
  readonly code: 'NO_MASTER' | 'NO_TLS' | 'TLS_ONLY'

  constructor(code: ServerFault['code']) {
    super(code)
    this.code = code
  }
}

/** Rejects with CallTimeout after timeoutMs; the call itself may still be carried out. */
export function bounded<Reply>(reply: Promise<Reply>, timeoutMs: number): Promise<Reply> {
  return new Promise((resolve, reject) => {
    // After a stall of the event loop timers run before sockets are read: give an answer that is already there its turn.
    const timer = setTimeout(
      () => setImmediate(() => reject(new CallTimeout('no answer in time'))),
      timeoutMs,
    )
    reply.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

export function isTimeout(fault: unknown): boolean {
  return (
    fault instanceof CallTimeout ||
    (fault instanceof Error && fault.message === 'Command timed out')
  )
}

export function isWrongType(fault: unknown): boolean {
  return fault instanceof Error && fault.message.includes('WRONGTYPE')
}

const sentinelsAway = /^All sentinels are unreachable/

export const areSentinelsAway = (fault: unknown): boolean =>
  fault instanceof Error && sentinelsAway.test(fault.message)

/** What a script or a command of a user without the right to it is answered; not every version begins it with NOPERM. */
const lacksRight = /ACL failure in script|can't run this command|no permissions/i

const replyWord = (message: string): string | undefined => {
  if (lacksRight.test(message)) return 'NOPERM'
  if (/^ERR (DB index|SELECT is not allowed)/.test(message)) return 'NO_DATABASE'
  if (message.startsWith('ERR This instance has cluster support disabled')) return 'NO_CLUSTER'
  return /^[A-Z]{2,20}(?= )/.exec(message)?.[0]
}

/**
 * A word that tells an operator where to look, such as ECONNREFUSED, WRONGPASS, READONLY or timeout.
 * Never more of the message: servers quote in it what they were sent.
 */
export function faultWord(fault: unknown): string {
  if (isTimeout(fault)) return 'timeout'
  if (!(fault instanceof Error)) return 'connection lost'
  if ('code' in fault && typeof fault.code === 'string' && /^[A-Z0-9_]{3,64}$/.test(fault.code))
    return fault.code
  if (!sentinelsAway.test(fault.message)) return replyWord(fault.message) ?? 'connection lost'
  const [, last = ''] = /Last error: (.*)/.exec(fault.message) ?? []
  return replyWord(last) ?? 'sentinels unreachable'
}
