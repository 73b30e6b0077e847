/**
 * Derives the keys of TLS session tickets from a secret that changes daily. Processes that start with the same secret derive
 * the same ones for all later days without communication, and the secrets of earlier days cannot be derived.
 */
import { hash, hkdfSync, randomBytes } from 'node:crypto'
import { DAY_MS } from '../../config/time.ts'

/** The secret as plain data, for another process. */
export interface SecretOfDay {
  /** Days since 1970, in UTC. */
  readonly day: number
  readonly secret: Uint8Array
}

export const newSecret = (nowMs: number): SecretOfDay => ({
  day: Math.floor(nowMs / DAY_MS),
  secret: randomBytes(32),
})

/** Returns the secret of the day of nowMs; a clock that goes back changes nothing. */
export function secretAt({ day, secret }: SecretOfDay, nowMs: number): SecretOfDay {
  let [at, current] = [day, secret]
  for (; at < Math.floor(nowMs / DAY_MS); at++) current = hash('sha256', current, 'buffer')
  return { day: at, secret: current }
}

/** Replaces the secret each day and keeps no older one. onNext: receives each new secret. */
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

/** Derives the ticket keys. Other demands on clients give other keys: a ticket proves that its demands were met. */
export function ticketKeys({ secret }: SecretOfDay, demands: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', hash('sha256', demands), 48))
}
