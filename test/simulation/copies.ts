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
  /** In src/quota. */
  readonly file: string
  readonly from: string
  readonly to: string
}

const project = join(import.meta.dirname, '..', '..')

export function replaced(text: string, { name, file, from, to }: Replacement): string {
  const parts = text.split(from)
  if (parts.length !== 2)
    throw new Error(
      `the mutant "${name}" must be brought up to date: src/quota/${file} has this text ${parts.length - 1} times, not once: ${from}`,
    )
  return parts.join(to)
}

/** isOpen: what is private in a class is a field like any other. */
export function loaded(replacements: readonly Replacement[], { isOpen = false } = {}): Quota {
  const root = temporaryFolder()
  const folder = join(root, 'src')
  for (const room of ['quota', 'redis', 'rules', 'ipc', 'sqlite', 'usage'])
    cpSync(join(project, 'src', room), join(folder, room), { recursive: true })
  writeFileSync(join(root, 'package.json'), '{"type":"module"}')
  for (const replacement of replacements) {
    const file = join(folder, 'quota', replacement.file)
    writeFileSync(file, replaced(readFileSync(file, 'utf8'), replacement))
  }
  if (isOpen)
    for (const name of readdirSync(join(folder, 'quota'), { recursive: true, encoding: 'utf8' })) {
      if (!name.endsWith('.ts')) continue
      const file = join(folder, 'quota', name)
      writeFileSync(
        file,
        readFileSync(file, 'utf8').replaceAll(/(^|[\s.(!])#(?=[a-z])/gm, '$1private_'),
      )
    }
  const require = createRequire(import.meta.url)
  const load = (name: string): object => require(join(folder, name)) as object
  return {
    ...load('ipc/calls.ts'),
    ...load('quota/authorities/ipc.ts'),
    ...load('sqlite/quota-journal.ts'),
    ...load('quota/lessee/lessee.ts'),
    ...load('redis/breaker.ts'),
    ...load('redis/faults.ts'),
    ...load('rules/steady-clock.ts'),
    ...load('quota/authorities/memory.ts'),
    ...load('quota/authorities/transition.ts'),
    ...load('usage/client-counters.ts'),
  } as Quota
}
