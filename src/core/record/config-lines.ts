/** The lines about the configuration, and about what operators change. */
import type { Say } from './line-writer.ts'
import { text } from './log-text.ts'

export interface AuditLine {
  /** The address, or the beginning of the digest of the token. */
  readonly who: string
  readonly action: string
  readonly [detail: string]: unknown
}

export const configLines = (say: Say) => ({
  /** store: at the start; blastRadius: later, with a bounded number of names. */
  configTaken: (line: { revision: string } & ({ store: string } | { blastRadius: object })) =>
    say('info', { event: 'configTaken', ...line }),
  /** The one in force, of this revision, stays. */
  reloadRefused: (line: { revision: string; problems: readonly string[] }) =>
    say('error', { event: 'configRefused', ...line }),
  /** A change that somebody has asked for on the admin listener, and what has come of it. */
  audit: (line: AuditLine) => say('info', { event: 'audit', ...line }),
  /** One of Config.warnings. */
  configWarning: ({ problem }: { problem: string }) =>
    say('warn', { event: 'configWarning', problem: text(problem) }),
})
