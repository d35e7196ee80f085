{# A view that outlives the session cannot show the views of a lake, which live as long as it: so models are temporary, too. #}
{% macro spark__create_view_as(relation, sql) -%}
  create or replace temporary view {{ relation.identifier }} as {{ sql }}
{%- endmacro %}

{# Temporary views are named without a schema. #}
{% macro ref(model_name) -%}
  {{ return(builtins.ref(model_name).include(schema=false)) }}
{%- endmacro %}
