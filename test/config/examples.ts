/** The example files of config/, as text. */
import { readFileSync } from 'node:fs'

const read = (name: string): string =>
  readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8')

export const gatewayYaml = read('gateway.yaml')
export const minimalYaml = read('minimal.yaml')
export const productionYaml = read('production.yaml')
