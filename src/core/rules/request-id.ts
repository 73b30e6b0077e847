/** Gives each request its id: the caller's own where it is short and plain, else a new one that is unique, not secret. */

export type RequestIdOf = ReturnType<typeof createRequestId>

/**
 * New ids are a counter behind a prefix that only this process has: far cheaper than randomness for every request. bootMs: Unix time
 * at which the process started. random: eight or more random bytes, so that two processes that start at the same time differ.
 */
export function createRequestId(bootMs: number, random: Uint8Array) {
  const noise = Buffer.from(random).toString('hex')
  const prefix = `${bootMs.toString(36)}-${noise}-`
  let count = 0
  /** inbound: X-Request-Id of a trusted proxy, undefined from anyone else. */
  const requestId = (inbound: string | undefined): string => {
    if (inbound !== undefined && plain.test(inbound)) return inbound
    count += 1
    return prefix + count.toString(36)
  }
  /** process: distinguishes this process from others in a log; it stands between the dashes of each new id. */
  return Object.assign(requestId, { process: noise })
}

/** Matches ids that are safe in a header, a log line and a file name. */
const plain = /^[\w\-.]{1,128}$/
