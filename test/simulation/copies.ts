/**
 * The sources of the quota in a temporary folder, loaded by Node itself: as they are, with one rule broken on purpose (a mutant),
 * or with their private fields in the open, so that an exploration can tell one state from another.
 */
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { temporaryFolder } from '../support/processes.ts'
import type { Quota } from './shipped.ts'

export interface Replacement {
  readonly name: string
  /** In src. */
  readonly file: string
  readonly from: string
  readonly to: string
}

const project = join(import.meta.dirname, '../..')

export function replaced(text: string, { name, file, from, to }: Replacement): string {
  const parts = text.split(from)
  if (parts.length !== 2)
    throw new Error(
      `the mutant "${name}" must be brought up to date: src/${file} has this text ${parts.length - 1} times, not once: ${from}`,
    )
  return parts.join(to)
}

/** isOpen: what is private in a class is a field like any other. */
export function loaded(replacements: readonly Replacement[], { isOpen = false } = {}): Quota {
  const root = temporaryFolder()
  const folder = join(root, 'src')
  for (const room of ['core/quota', 'core/rules', 'state', 'config'])
    cpSync(join(project, 'src', room), join(folder, room), { recursive: true })
  writeFileSync(join(root, 'package.json'), '{"type":"module"}')
  for (const replacement of replacements) {
    const file = join(folder, replacement.file)
    writeFileSync(file, replaced(readFileSync(file, 'utf8'), replacement))
  }
  const opened = [
    ...readdirSync(join(folder, 'core/quota')).map((name) => `core/quota/${name}`),
    ...['authority', 'transition', 'statements'].map((name) => `state/memory/${name}.ts`),
  ]
  for (const name of isOpen ? opened : []) {
    const file = join(folder, name)
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, text.replaceAll(/(^|[\s.(!])#(?=[a-z])/gm, '$1private_'))
  }
  const require = createRequire(import.meta.url)
  const load = (name: string): object => require(join(folder, name)) as object
  return {
    ...load('state/supervisor/calls.ts'),
    ...load('state/supervisor/authority.ts'),
    ...load('state/sqlite/quota-journal.ts'),
    ...load('core/quota/lessee.ts'),
    ...load('state/redis/breaker.ts'),
    ...load('state/redis/faults.ts'),
    ...load('core/rules/steady-clock.ts'),
    ...load('state/memory/authority.ts'),
    ...load('state/memory/transition.ts'),
    ...load('state/memory/client-counters.ts'),
  } as Quota
}
