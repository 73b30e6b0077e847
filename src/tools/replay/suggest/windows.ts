/** Lists the windows of the suggested plans, one in a row. */
import type { SuggestedPlan } from '../report.ts'

export interface WindowOfPlan {
  readonly plan: string
  readonly window: 'minute' | 'day'
  readonly clients: number
  readonly peaks: SuggestedPlan['peaks']['minute']
  readonly limit: number | undefined
  readonly atShare: number | undefined
  readonly refused: number | undefined
}

/** Writes a share such as 0.98%. */
export const percentOf = (share: number | undefined): string =>
  share === undefined ? '–' : `${Number((share * 100).toPrecision(2))}%`

export const windowsOf = ({ plan, clients, peaks, ...rest }: SuggestedPlan): WindowOfPlan[] =>
  (['minute', 'day'] as const).map((window) => {
    const of = window === 'minute' ? 'perMinute' : 'perDay'
    const { limits, atShare } = rest
    const found = { limit: limits?.[of], atShare: atShare?.[of], refused: atShare?.share }
    return { plan, window, clients, peaks: peaks[window], ...found }
  })
