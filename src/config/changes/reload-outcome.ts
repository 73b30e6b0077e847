/** The outcome of a reload, in a size that does not grow with the number of clients. */
import type { BlastRadius } from './blast-radius.ts'

/** A requested reload. */
export interface ReloadWish {
  /** Reports what would change, and takes nothing. */
  readonly dryRun?: boolean
  /** Takes only this revision; undefined: whatever the files say now. */
  readonly revision?: string
}

/** Clients with lowered limits that have already used up the new limits: they would be refused at once. */
export interface OverNow {
  readonly asOf: string
  readonly scope: 'store'
  readonly missing?: readonly string[]
  /** Number of clients with lowered limits. */
  readonly of: number
  /** Number of them that were looked at; `missing` says why it is lower. */
  readonly lookedAt: number
  readonly count: number
  /** Ids of the first of them. */
  readonly clients: readonly string[]
}

export type ReloadOutcome =
  | {
      readonly outcome: 'taken' | 'wouldBeTaken'
      readonly revision: string
      readonly blastRadius: BlastRadius
      /** Present where nothing is taken. */
      readonly over?: OverNow
    }
  /** The configuration in force stays; problems: lines for a person to read. */
  | { readonly outcome: 'refused'; readonly revision: string; readonly problems: readonly string[] }
  /** The files have another revision than the requested one. */
  | { readonly outcome: 'filesChanged'; readonly revision: string }
