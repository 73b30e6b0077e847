/** Everything that is made from the kept results: plots, the figures in bench/README.md, docs/capacity.md. */
import { join } from 'node:path'
import { writeCapacityPage } from './capacity.ts'
import { replaceBlock } from './markdown.ts'
import { writePlots } from './plots.ts'
import { report } from './report.ts'
import type { Results } from './results.ts'

export async function render(results: Results): Promise<void> {
  writePlots(results)
  await replaceBlock(join(import.meta.dirname, '../README.md'), 'growth', report(results))
  await writeCapacityPage(results)
}
