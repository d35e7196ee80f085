select who, cast(sum(pages) as bigint) as pages, count(*) as visits
from {{ var('lake') }}_visits
group by who
