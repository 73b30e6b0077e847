/**
 * The secret of the day, from which the keys of TLS session tickets are made. Processes that have begun with the same one
 * agree on those of all later days without a word, and nobody can tell those of earlier days from it.
 */
import { hash, hkdfSync, randomBytes } from 'node:crypto'
import { DAY_MS } from '../../config/time.ts'

/** Plain data, for another process. */
export interface SecretOfDay {
  /** Since 1970, in UTC. */
  readonly day: number
  readonly secret: Uint8Array
}

export const newSecret = (nowMs: number): SecretOfDay => ({
  day: Math.floor(nowMs / DAY_MS),
  secret: randomBytes(32),
})

/** The same, or that of a later day; a clock that goes back changes nothing. */
export function secretAt({ day, secret }: SecretOfDay, nowMs: number): SecretOfDay {
  let [at, current] = [day, secret]
  for (; at < Math.floor(nowMs / DAY_MS); at++) current = hash('sha256', current, 'buffer')
  return { day: at, secret: current }
}

/** Keeps up with the days, and forgets those that are over. onNext: told of each new one. */
export function keepDaily(first: SecretOfDay, onNext: (today: SecretOfDay) => void = () => {}) {
  let today = secretAt(first, Date.now())
  const wait = (): NodeJS.Timeout =>
    setTimeout(
      () => {
        today = secretAt(today, Date.now())
        timer = wait()
        onNext(today)
      },
      DAY_MS - (Date.now() % DAY_MS) + 1,
    ).unref()
  let timer = wait()
  return { today: () => today, stop: () => clearTimeout(timer) }
}

/** Other keys for other demands on clients: a ticket says that they were met. */
export function ticketKeys({ secret }: SecretOfDay, demands: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', hash('sha256', demands), 48))
}
