/** Log lines about the configuration and about changes by operators. */
import type { Say } from './line-writer.ts'
import { text } from './log-text.ts'

export interface AuditLine {
  /** The client address, or the beginning of the token's digest. */
  readonly who: string
  readonly action: string
  readonly [detail: string]: unknown
}

export const configLines = (say: Say) => ({
  /** store: on the first line, at the start; blastRadius: on later lines, with a bounded number of names. */
  configTaken: (line: { revision: string } & ({ store: string } | { blastRadius: object })) =>
    say('info', { event: 'configTaken', ...line }),
  /** A new configuration was refused; the one in force, of this revision, stays. */
  reloadRefused: (line: { revision: string; problems: readonly string[] }) =>
    say('error', { event: 'configRefused', ...line }),
  /** A change requested on the admin listener, and its outcome. */
  audit: (line: AuditLine) => say('info', { event: 'audit', ...line }),
  /** One of Config.warnings. */
  configWarning: ({ problem }: { problem: string }) =>
    say('warn', { event: 'configWarning', problem: text(problem) }),
})
