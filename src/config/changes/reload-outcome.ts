/** What has come of a wish for a new configuration, told in a size that does not grow with the number of clients. */
import type { BlastRadius, BoundedRadius } from './blast-radius.ts'

/** undefined: whatever the files say now. */
export interface ReloadWish {
  /** Only tells what would change. */
  readonly dryRun?: boolean
  /** Takes just this one. */
  readonly revision?: string
}

/** Of the clients whose limits are lowered those that have used up what would be left to them: they are refused at once. */
export interface OverNow {
  readonly asOf: string
  readonly scope: 'store'
  readonly missing?: readonly string[]
  /** So many are lowered. */
  readonly of: number
  /** Fewer: `missing` says why. */
  readonly lookedAt: number
  readonly count: number
  /** The first of them. */
  readonly clients: readonly string[]
}

export type ReloadOutcome =
  | {
      readonly outcome: 'taken' | 'wouldBeTaken'
      readonly revision: string
      readonly blastRadius: BoundedRadius
      /** Where nothing is taken. */
      readonly over?: OverNow
    }
  /** The one in force stays; problems: as a person should read them. */
  | { readonly outcome: 'refused'; readonly revision: string; readonly problems: readonly string[] }
  /** The files have come to another revision than the one that was wished for. */
  | { readonly outcome: 'filesChanged'; readonly revision: string }

/** Cuts each list, and counts those that are not counted. */
export function boundedRadius(radius: BoundedRadius, longest: number): BoundedRadius {
  const { counts: counted, ...lists } = radius
  const counts = { ...counted }
  const cut = (value: unknown, path: readonly string[]): unknown => {
    if (Array.isArray(value)) {
      if (value.length > 0) counts[path.join('.')] ??= value.length
      return value.slice(0, longest)
    }
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, cut(inner, [...path, name])]),
    )
  }
  return { ...(cut(lists, []) as BlastRadius), counts }
}
