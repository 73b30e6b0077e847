/** Loads a configuration with all its clients: those of the file itself and those of the client files that it names. */
import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import type { Config } from '../config.ts'
import { certificateEnds, certificateWarnings, type CertificateEnd } from '../certificates.ts'
import type { Environment } from '../environment.ts'
import { placed, readYaml } from '../document.ts'
import { readConfigText, resolveFiles, unreadableFiles } from '../files.ts'
import { parseConfig } from '../parse.ts'
import {
  ConfigError,
  formatProblem,
  inOrder,
  ofWholeFile,
  problem,
  PROBLEMS_AT_MOST,
  withoutSecrets,
  type PathProblem,
} from '../problems.ts'
import { groupAt, isGroup, type Group } from '../tree.ts'
import { locationsIn } from '../locations.ts'
import { warningsOf } from './warnings.ts'
import { loadConfigAside } from './aside.ts'
import { build, type Built } from './builder.ts'
import { isJsonLines, ownClients } from './entries.ts'
import { findClientFiles, type FoundFile, type FoundFiles } from './files.ts'
import { ClientTable } from './client-table.ts'

/** Longer files are read in a thread: a line may take a hundred times as long as a plain one. */
const INLINE_BYTES = 2 ** 16
/** YAML may take so many times as long to read as JSON lines. */
const YAML_WEIGHT = 16

/** The longest timer: a start takes the time that its files need. */
const NO_DEADLINE_MS = 2 ** 31 - 1

interface Source {
  /** Name of the file, for messages. */
  readonly file: string
  readonly env: Environment
  /** Default: now. */
  readonly nowMs?: number
}

/** Parses the text of a file without looking at any other. Throws ConfigError with every problem. */
export const parseConfigText = (text: string, source: Source): Config => {
  const main = readMain(text, source)
  return toConfig(main, { files: [], problems: [], warnings: [] }, buildOf(main, []))
}

/** Reads and parses a file, in a thread where its client files are long. Rejects with ConfigError with every problem, unreadable files included. */
export const loadConfig = async (file: string, env: Environment): Promise<Config> => {
  const main = readMain(readConfigText(file), { file, env })
  const { files } = findClientFiles(main.tree, file)
  return weightOf(files) > INLINE_BYTES
    ? loadConfigAside(file, env, NO_DEADLINE_MS)
    : withClients(main)
}

/** Does the same in this thread, however long they are. */
export const loadConfigHere = (file: string, env: Environment): Config =>
  withClients(readMain(readConfigText(file), { file, env }))

/** The configuration itself, parsed with positions and the environment put in; tree: with all defaults. */
type Main = ReturnType<typeof readMain>

/** Throws ConfigError where nothing can be read. */
const readMain = (text: string, { file, env, nowMs = Date.now() }: Source) => {
  const reading = readYaml(text, env)
  const { tree, isHole } = reading
  const problems = [...reading.faults]
  if (tree === undefined || !isGroup(tree)) {
    const isEmpty = tree === '' && problems.length === 0
    const fault = isEmpty
      ? 'is empty; write at least one key, such as clients:'
      : 'is not a group of keys; write KEY: VALUE lines'
    if (isEmpty || (tree !== undefined && tree !== '')) problems.push(ofWholeFile(fault))
    throw new ConfigError(file, problems)
  }
  resolveFiles(tree, dirname(file))
  const { complete, config, problems: parsed } = parseConfig(tree)
  const place = (problem: PathProblem) => placed(problem, reading, complete)
  const found = parsed.filter(({ path }) => !isHole(path)).slice(0, PROBLEMS_AT_MOST)
  problems.push(...found.map(place))
  return { text, file, nowMs, problems, config, reading, tree: complete, place }
}

const withClients = (main: Main): Config => {
  const { file, tree } = main
  // A file that is being written while it is read gets a second chance.
  for (let isLast = false; ; isLast = true) {
    const found = findClientFiles(tree, file)
    const built = buildOf(main, found.files)
    const isSame = stamps(findClientFiles(tree, file).files) === stamps(found.files)
    if (!isSame && !isLast) continue
    const problems = [...unreadableFiles(tree), ...found.problems, ...(isSame ? [] : [changed])]
    return toConfig(main, { ...found, problems }, built, certificateEnds(tree))
  }
}

const changed = problem(['clientFiles'], 'has a file that changed while it was read; try again')

const stamps = (files: readonly FoundFile[]): string => files.map(({ stamp }) => stamp).join('\n')

const weightOf = (files: readonly FoundFile[]): number =>
  files.reduce((sum, { path, bytes }) => sum + bytes * (isJsonLines(path) ? 1 : YAML_WEIGHT), 0)

const buildOf = ({ reading, tree, nowMs }: Main, files: readonly FoundFile[]): Built =>
  build([ownClients(reading), ...files], groupAt(tree, 'plans'), nowMs)

const toConfig = (
  main: Main,
  found: FoundFiles,
  built: Built,
  certificates: readonly CertificateEnd[] = [],
): Config => {
  const { text, file, nowMs, config, place } = main
  const { clients: _, ...settings } = main.tree
  // Plans hold no secrets, and may have any name.
  const written = { ...(withoutSecrets(settings) as Group), plans: groupAt(settings, 'plans') }
  const { table } = built
  const all = [...main.problems, ...found.problems.map(place), ...built.faults]
  if (config === undefined || table === undefined || all.length > 0)
    throw new ConfigError(file, all)
  const clientFiles = found.files.map(({ relative }) => relative)
  const whole: Config = {
    ...config,
    clients: new ClientTable(table, config.plans),
    revision: revisionOf(text, found.files, built.sha256.slice(1)),
    written,
    locations: locationsIn(main.reading, file, clientFiles),
    warnings: [],
    certificates,
  }
  const own = [...warningsOf(whole, nowMs), ...certificateWarnings(certificates, nowMs)].map(place)
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
