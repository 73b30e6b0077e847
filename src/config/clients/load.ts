/** Loads a configuration with all its clients: those of the file itself and those of the client files that it names. */
import { createHash } from 'node:crypto'
import type { Config } from '../config.ts'
import { certificateEnds, certificateWarnings, type CertificateEnd } from '../certificates.ts'
import type { Environment } from '../environment.ts'
import { readYaml } from '../document.ts'
import { unreadableFiles } from '../files.ts'
import { readConfig, readConfigText, type ReadConfig } from '../load.ts'
import { ConfigError, formatProblem, inOrder, problem } from '../problems.ts'
import { groupAt, isGroup } from '../tree.ts'
import { warningsOf } from './warnings.ts'
import { buildAside } from './aside.ts'
import { build, type BuildRequest, type Built } from './builder.ts'
import { isJsonLines } from './entries.ts'
import { findClientFiles, type FoundFile, type FoundFiles } from './files.ts'
import { readPieces } from './cut-file.ts'
import { ClientTable } from './client-table.ts'

/** Longer files are read in a thread: a line may take a hundred times as long as a plain one. */
const INLINE_BYTES = 2 ** 16
/** YAML may take so many times as long to read as JSON lines. */
const YAML_WEIGHT = 16

interface Source {
  /** Name of the file, for messages. */
  readonly file: string
  readonly env: Environment
  /** Default: now. */
  readonly nowMs?: number
}

/** Parses the text of a file without looking at any other. Throws ConfigError with every problem. */
export const parseConfigText = (
  text: string,
  { file, env, nowMs = Date.now() }: Source,
): Config => {
  const read = readConfig(text, { file, env })
  const built = build(requestOf(read, [], nowMs))
  const found = { files: [], problems: [], warnings: [] }
  return toConfig({ text, file, nowMs, read, found, built, certificates: [] })
}

/** Reads and parses a file. Rejects with ConfigError with every problem, unreadable files included. */
export const loadConfig = async (file: string, env: Environment): Promise<Config> => {
  const text = readConfigText(file)
  const nowMs = Date.now()
  const read = readConfig(text, { file, env, checkFiles: unreadableFiles })
  // A file that is being written while it is read gets a second chance.
  for (let isLast = false; ; isLast = true) {
    const found = findClientFiles(read.tree, file)
    const built = await buildAll(requestOf(read, found.files, nowMs))
    const isSame = stamps(findClientFiles(read.tree, file).files) === stamps(found.files)
    if (!isSame && !isLast) continue
    const problems = isSame ? found.problems : [...found.problems, changed]
    const certificates = certificateEnds(read.tree)
    return toConfig({ text, file, nowMs, read, found: { ...found, problems }, built, certificates })
  }
}

/** Computes the revision of the files as they are now, without checking them. Throws ConfigError, or as node:fs does. */
export const readRevision = (file: string, env: Environment): string => {
  const text = readConfigText(file)
  const { tree } = readYaml(text, env)
  const files = isGroup(tree) ? findClientFiles(tree, file).files : []
  const sha256 = files.map(({ path }) => readPieces(path, (_, to) => to))
  return revisionOf(text, files, sha256)
}

const changed = problem(['clientFiles'], 'has a file that changed while it was read; try again')

const stamps = (files: readonly FoundFile[]): string => files.map(({ stamp }) => stamp).join('\n')

const buildAll = (request: BuildRequest): Promise<Built> | Built => {
  const weighed = request.files.map(({ path, bytes }) =>
    isJsonLines(path) ? bytes : bytes * YAML_WEIGHT,
  )
  const bytes = weighed.reduce((sum, one) => sum + one, 0)
  return bytes > INLINE_BYTES ? buildAside({ ...request, isLarge: true }) : build(request)
}

const requestOf = (
  { config, tree }: ReadConfig,
  files: readonly FoundFile[],
  nowMs: number,
): BuildRequest => ({
  own: config?.clients ?? [],
  files,
  plans: groupAt(tree, 'plans'),
  nowMs,
  isLarge: false,
})

interface Loaded {
  readonly text: string
  readonly file: string
  readonly nowMs: number
  readonly read: ReadConfig
  readonly found: FoundFiles
  readonly built: Built
  readonly certificates: readonly CertificateEnd[]
}

const toConfig = (loaded: Loaded): Config => {
  const { text, file, nowMs, read, found, built, certificates } = loaded
  const { config, place } = read
  const { table, dropped } = built
  const all = [...read.problems, ...found.problems.map(place), ...built.faults]
  if (dropped > 0) {
    const message = `has files with ${dropped} more problems than are listed; correct these first`
    all.push(place(problem(['clientFiles'], message, 'key')))
  }
  if (config === undefined || table === undefined || all.length > 0)
    throw new ConfigError(file, all)
  const whole: Config = {
    ...config,
    clients: new ClientTable(table, config.plans),
    revision: revisionOf(text, found.files, built.sha256),
    warnings: [],
    certificates,
  }
  const own = [
    ...warningsOf(whole, config.clients, { nowMs, ending: built.ending }),
    ...certificateWarnings(certificates, nowMs),
  ].map(place)
  const warnings = inOrder([...own, ...found.warnings.map(place), ...built.warnings]).map(
    (warning) => formatProblem(file, { ...warning, message: `warning: ${warning.message}` }),
  )
  return { ...whole, warnings }
}

/** A changed client file makes another revision; without client files the text alone makes it. */
const revisionOf = (
  text: string,
  files: readonly FoundFile[],
  sha256: readonly string[],
): string => {
  const hash = createHash('sha256').update(text)
  for (const [index, { relative }] of files.entries())
    hash.update(`\0${relative}\0${sha256[index]}`)
  return hash.digest('hex').slice(0, 12)
}
