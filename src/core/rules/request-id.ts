/** Gives each request its id: the caller's own where it is short and plain, else a new one that is unique, not secret. */

/** inbound: X-Request-Id of a trusted proxy, undefined from anyone else. */
export interface RequestIdOf {
  (inbound: string | undefined): string
  /** Distinguishes this process from others in a log; it stands between the dashes of each new id. */
  readonly process: string
}

export interface RequestIdSeed {
  /** Unix time in ms at which the process started. */
  readonly bootMs: number
  /** Eight or more random bytes, so that two processes that start at the same time differ. */
  readonly random: Uint8Array
}

/** New ids are a counter behind a prefix that only this process has: far cheaper than randomness for every request. */
export function createRequestId({ bootMs, random }: RequestIdSeed): RequestIdOf {
  const noise = Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')
  const prefix = `${bootMs.toString(36)}-${noise}-`
  let count = 0
  const requestId = (inbound: string | undefined): string => {
    if (inbound !== undefined && plain.test(inbound)) return inbound
    count += 1
    return prefix + count.toString(36)
  }
  return Object.assign(requestId, { process: noise })
}

/** Matches ids that are safe in a header, a log line and a file name. */
const plain = /^[\w\-.]{1,128}$/
