/** Clients of the growth runs: groups of them with equal limits, whose keys follow from group and number. */
import { createHash } from 'node:crypto'

export interface ClientGroup {
  /** Letters only; client ids are `NAME-0`, `NAME-1` and so on. */
  readonly name: string
  readonly count: number
  readonly limits: { readonly perMinute: number; readonly perDay: number }
}

/** More than any run can use, by one client alone. */
export const ample = { perMinute: 10_000_000, perDay: 10_000_000_000 }

/** The key a client of the group sends. */
export function keyOf(group: string, index: number): string {
  return `tg_${sha256(`${group}-${index}`).slice(0, 40)}`
}

/** The `plans` and `clients` of the gateway's configuration: one plan per group. */
export function clientsConfig(groups: readonly ClientGroup[]) {
  return {
    // One client may be all of the load.
    plans: Object.fromEntries(
      groups.map(({ name, limits }) => [name, { ...limits, concurrent: 1_000 }]),
    ),
    clients: groups.flatMap(({ name, count }) =>
      Array.from({ length: count }, (_, index) => {
        const id = `${name}-${index}`
        return { id, plan: name, keys: [{ id: `${id}-key`, sha256: sha256(keyOf(name, index)) }] }
      }),
    ),
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
