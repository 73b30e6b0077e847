/** Client files of a test, built as the gateway builds them. */
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Built } from '../../../src/config/clients/builder.ts'
import { ClientTable, fromPlainConfig } from '../../../src/config/clients/client-table.ts'
import { toPlainConfig } from '../../../src/config/clients/client-table.ts'
import { borrowTable } from '../../../src/config/clients/release.ts'
import { ownClients, readClients } from '../../../src/config/clients/entries.ts'
import { formatProblem } from '../../../src/config/problems.ts'
import { readYaml } from '../../../src/config/document.ts'
import type { ClientConfig, Config, PlanConfig } from '../../../src/config/config.ts'

export const nowMs = Date.UTC(2026, 0, 1)
export const plans = { pro: { perMinute: '300', perDay: '10000' }, enterprise: { custom: 'true' } }
export const planConfigs: ReadonlyMap<string, PlanConfig> = new Map([
  ['pro', { name: 'pro', limits: { perMinute: 300, perDay: 10_000 }, concurrent: 8 }],
  ['enterprise', { name: 'enterprise', limits: undefined, concurrent: 8 }],
])

/** As another process has it. */
export const sentConfig = (config: Config): Config =>
  fromPlainConfig(structuredClone(toPlainConfig(config)), borrowTable(config).bytes.slice().buffer)

export type Texts = Readonly<Record<string, string | Uint8Array>>

export const writeAll = (folder: string, texts: Texts) =>
  Object.entries(texts).map(([name, text]) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return { name, bytes: statSync(path).size, read: readClients(path) }
  })

/** own: text of the configuration itself. */
export const buildAll = (folder: string, texts: Texts, own = ''): Built =>
  build([ownClients(readYaml(own, undefined)), ...writeAll(folder, texts)], plans, nowMs)

export const linesOf = ({ faults }: Pick<Built, 'faults'>): string[] =>
  faults.map((fault) => formatProblem('', fault))

/** All clients that came of it, as one would write them in a test. */
export const clientsOf = ({ table }: Built): ClientConfig[] =>
  table === undefined ? [] : [...new ClientTable(table, planConfigs)]
