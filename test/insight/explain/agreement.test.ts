import { it } from 'vitest'
import { agreeOn } from './agreement.ts'

it('is what the gateway answers, code and numbers, whatever it is configured and asked', () =>
  agreeOn(5, 1))
